// Package snapshot keeps the snapshots of one Raft group on disk, as a raft.SnapshotStore that writes only what changed.
//
// A snapshot is a head (the small state, always written whole) and pages (the big state: rows, in pieces that have a number). The
// owner's FSM persists into the *Sink it gets from raft: WriteHead once, WritePage for every page dirtied since the snapshot named
// by Base. Pages that are not written are those of the base. An owner whose dirty marks are not relative to Base calls Full first and
// writes every page. The reverse is Reader, which takes the stream apart that raft hands to FSM.Restore.
//
//	Open -> verifies everything       Create -> *Sink -> WriteHead, WritePage... -> Close (it exists) or Cancel (nothing remains)
//	Run  -> compaction in background   Store.Open(id) -> the stream -> raft -> InstallSnapshot -> Sink.Write (the stream form)
//
// Promises: a snapshot exists when its manifest does, and it does whole; a crash or a full disk at any write leaves the previous ones
// as they were; what is damaged is refused by name (*corrupt.Error), never replaced by something older. For the same reason List shows
// the newest snapshot only: raft would fall back to an older one when a restore fails, behind which the log has been cut.
//
// Goroutines: none is started here; Run compacts in the caller's. A Store may be used concurrently, a Sink and a reader by one
// goroutine each.
//
// # Files
//
// All integers are little endian, every CRC is CRC-32C (Castagnoli).
//
// pages-N (N: eight decimal digits) is append-only:
//
//	0   8  magic "hclppage"
//	8   4  version, 1
//	12  4  N
//	16  .. payloads, back to back; where each one is stands in the manifests
//
// manifest-S (S: twenty decimal digits, grows with every snapshot) is written as manifest-S.tmp and renamed:
//
//	0   8  magic "hclpmani"
//	8   4  version, 1
//	12  8  S
//	20  8  index of the last log entry in it
//	28  8  its term
//	36  8  index of the configuration entry
//	44  8  bytes of the stream
//	52  2  raft's snapshot version
//	54  2  number of servers, then for each:
//	       1 suffrage, 2 length, id, 2 length, address
//	..  28 place of the head (as below, id 0)
//	..  8  number of pages, then for each, ids ascending:
//	       8 id, 4 N of the page file, 8 offset, 4 length, 4 CRC of its stream record
//	..  4  CRC of all bytes before
//
// # Stream
//
// A sequence of records: begin, head, pages with ascending ids, end. A record:
//
//	0   4  length of the data, at most 256 MiB
//	4   1  kind: 1 begin, 2 head, 3 page, 4 end
//	5   3  zero
//	8   8  id of the page, else 0
//	16  4  CRC of bytes 0..15 and the data
//	20  .. data
//
// Data of begin: magic "hclpsnap", 4 bytes version, 1. Data of end: 8 bytes number of pages, 8 bytes of stream before the end record,
// 4 bytes CRC of the CRC fields of all records before, in order.
package snapshot
