// Package raftlog keeps a Raft group's log in mapped segment files, and a server's small records in Badger.
//
// One [Store] a server holds its identity, and for each group the term and the vote (a raft.StableStore, see
// [Store.Group]), the log's id, its files, and a mark of its progress. One [Log] a group is the raft.LogStore:
//
//	store, err := raftlog.OpenStore(dataDir, raftlog.Options{})
//	log, err := raftlog.Open(raftlog.Config{Dir: groupDir, Group: 3, Store: store, Sync: true})
//	err = log.CheckSnapshot(newestSnapshotIndex)
//	r, err := raft.NewRaft(config, fsm, log, store.Group(3), snapshots, transport)
//	err = log.Run(ctx) // until ctx ends; an error is fail-stop
//
// # Promises
//
// An entry is in the log when StoreLogs returns: it survives a kill -9 of the process, and under Sync a loss of power.
// Open finds it again or refuses: a log that may lack acknowledged entries is a [LostError], damaged bytes are a
// [corrupt.Error], and both leave the files alone. A log is lost when its directory, a file or its id is gone or another
// one, when it ends before the mark or has another entry there, or when it begins after the newest snapshot. What the
// store itself forgets is noticed too: a term below that of the log's last entry, fewer commits than its witness saw.
//
// After a crash FirstIndex may be lower than it was, by what was deleted since the last mark: those entries are whole.
//
// # Memory
//
// GetLog hands out slices of the mapping, nothing is copied. They are good while the entry is in the log. After that its
// segment is used for other entries, unless it is pinned: a sender pins what it got (Pin) before it writes it to a socket,
// a receiver reads into space it allocated (Alloc), which is pinned until released. A state machine that keeps nothing
// after Apply needs no pin, because Raft compacts only what was applied.
//
// # Segment file
//
// NNNNNNNN.seg, little endian, of a fixed size of 1 MiB to 1 GiB, fully allocated (a hole in a full tmpfs would kill the
// process), created as .tmp and renamed. A 64-byte header, 64-byte descriptors growing up from it, payloads growing down
// from the end of the file, each at a multiple of 64. A file is used again and again; each of these lives has a number, seq, that
// ascends over all files of the log. Payload space is used once in a life.
//
//	header
//	 0  8  magic "HCLPSEG1": in use; "HCLPFREE": belongs to the log, holds nothing; stored last, atomically
//	 8  4  format version, 1
//	12  4  group
//	16 16  log id, random
//	32  8  seq
//	40  8  index of the first descriptor; 0: the descriptor tells
//	48  8  size of the file
//	56  4  chained CRC before the first descriptor
//	60  4  CRC-32C of bytes 8 to 59
//
//	descriptor
//	 0  8  index
//	 8  8  term
//	16  8  seq of the segment the payload is in, this one or an earlier one; 0 without payload
//	24  4  offset of the payload in that file
//	28  4  length of the payload
//	32  8  AppendedAt, nanoseconds since 1970; 0: none
//	40  4  CRC-32C of the payload, made by the first who stored it
//	44  4  raft.LogType
//	48  4  chained CRC: CRC-32C of log id and bytes 0 to 47, begun with that of the descriptor before (in an empty
//	       log: with the CRC-32C of log id and seq)
//	52  4  low half of seq
//	56  8  publish word, stored last, atomically; 0: not there
//
//	publish word = (index * 0x9e3779b97f4a7c15 xor seq * 0xbf58476d1ce4e5b9 xor chain * 0x94d049bb133111eb) or 1
//
// A descriptor may lie in a later segment than its payload. Segments are retired oldest first, when all their entries are
// deleted; a descriptor whose payload was in a retired one says that its entry, and all before it, are deleted.
//
// Descriptors of an earlier life carry another seq; those that a truncation cut off are zeroed, newest first, and if a
// page of them comes back after a loss of power, the chain does not lead to them. Replay follows the chain over the
// segments by ascending seq and stops at the first break; what lies behind it is retired or zeroed.
//
// # Store
//
// A directory with LOCK (flock), WITNESS and the folder badger. WITNESS: number of commits u64, CRC-32C u32 of it, zero
// u32, written after each commit. Every value in Badger: length u32, CRC-32C u32 of key and value, value. Keys:
//
//	n                    number of commits, u64
//	s/KEY                records of the server
//	g/GGGGGGGG/stable/K  Raft's term (u64) and vote; group in hexadecimal
//	g/GGGGGGGG/log       version u32, count u32, log id 16, then number u32 and size u64 of each segment file
//	g/GGGGGGGG/mark      version u32, chained CRC u32 at last, seq u64, first u64, last u64
//
// A segment file is recorded before its use, and its record goes before the file does. The mark is moved once a second
// and at each new segment, under Sync never ahead of what is synced, and back before a truncation.
package raftlog
