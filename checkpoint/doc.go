// Package checkpoint keeps checkpoints of tables in a folder that the operator chooses, local or shared: content-addressed chunks in
// pack files, a part for each Raft group, and a JSON manifest, written last. A checkpoint exists when its manifest does.
//
//	s, err := checkpoint.Open(checkpoint.Config{Dir: "/ckpt/clicks", Owner: serverID, Catalogue: "/var/lib/ps/catalogue"})
//	w, err := s.Begin(ctx, checkpoint.Spec{ID: id, Job: job, Group: g, Shards: n, Tables: tables, Base: base})
//	err = w.WritePage(ctx, page)             // for each page of a frozen capture: all of them, or those touched since the base
//	err = w.WriteBlob(ctx, "residual/0", r)  // opaque state
//	part, err := w.Finish(ctx)               // durable, but nobody sees it; w.Cancel takes it back
//	m, err := s.Commit(ctx, manifest)        // by one of the servers, with all parts: now it exists
//
//	c, err := s.Load(ctx, id)
//	for row, err := range c.Rows(ctx, checkpoint.Query{}) { ... }  // or c.Pages: a page is the same under any number of shards
//
// [Store.List], [Store.Verify], [Store.Retain], [Store.Delete] and [Store.Collect] look after the folder, [Checkpoint.Export] and
// [OpenImport] exchange tables with others in the safetensors format.
//
// # Promises
//
// A crash, a loss of power or a full disk at any write leaves every earlier checkpoint as it was, and the one under way is there whole
// or not at all. What fails its checks is refused by name ([DamageError], ErrMissing, ErrVersion), and nothing older is used instead.
// A full disk is ErrFull; Cancel gives its space back.
//
// A chunk is written once: one that an earlier checkpoint of the job has, byte for byte, is named again. A full checkpoint takes nothing
// from packs of which the newest checkpoint needs less than half, so that a mostly dead pack is kept by no more checkpoints than there are. A
// delta holds the pages given to it, and those of its base are read from there; at most [MaxChain] deltas stand on a full checkpoint, which
// cannot be deleted before them. Who does not know which pages were touched gives all of them, and says so by [Writer.DropRest].
//
// # Several servers
//
// Stores of several processes may share a folder when their owners differ: each writes files of its own names only, and Commit, which
// may be called by any of them, looks whether all parts and packs are there. A writer leaves an intent in the folder before it looks for
// what it builds upon, and Delete spares what intents name. Collect needs to know which checkpoints are still being written: its floor.
// The catalogue is one server's own, and a cache: what it says is compared with the pack before it is used, and when it is lost or damaged it
// is built anew from the parts. It counts the pages that need a chunk; a count is too high, never too low, after another server has deleted a checkpoint.
//
// Goroutines: a Writer has one, from its first page to Finish or Cancel. A Store, a Checkpoint and an Import may be used concurrently, a Writer by one goroutine.
//
// # Files
//
// All integers are little endian, every CRC is CRC-32C (Castagnoli), every chunk is named by its SHA-256. ID is the checkpoint's number in
// twenty decimal digits, GROUP the Raft group's in five, TAG eight random letters or digits. A file being written ends in .tmp.
//
// pack-ID-GROUP-OWNER-TAG-NNNN is append-only:
//
//	0   8  magic "hclppack"
//	8   4  version, 1
//	12  4  group
//	16  8  checkpoint
//	24  4  zero
//	28  4  CRC of bytes 0..27
//	32  .. records
//
// A record:
//
//	0   4  length of the chunk, 1 to 64 MiB
//	4   1  kind: 1 page, 2 piece of a blob
//	5   3  zero
//	8   4  table, as when it was written
//	12  4  zero
//	16  8  page, partition << 32 | page; or number of the piece
//	24  32 SHA-256 of the chunk
//	56  4  CRC of the chunk
//	60  4  CRC of bytes 0..59
//	64  .. chunk: a page in the form of ps/table (see [Page] and [Row])
//
// part-ID-GROUP-OWNER-TAG:
//
//	0   8  magic "hclppart"
//	8   4  version, 1
//	12  4  group
//	16  8  checkpoint
//	24  8  base, 0: full
//	32  4  number of shards
//	36  4  number of packs
//	40  8  number of pages
//	48  4  number of blobs
//	52  4  bytes of the head, CRC included
//	56  .. packs: 2 length, name, 8 bytes of the file that are needed
//	..  4  CRC of all before
//	..  .. pages, ascending: 4 table, 8 page, place, 4 zero
//	..  .. blobs, ascending: 2 length, name, 8 bytes, 4 number of pieces, then for each: place, 8 zero
//	..  4  CRC of pages and blobs
//
// A place: 4 number of the pack, 4 length of the chunk, 8 offset of the record, 32 SHA-256. A page of a delta with length 0, pack
// 2^32-1, is gone.
//
// checkpoint-ID.json is a [Manifest] and ends with the member "crc32c", in eight hexadecimal digits, which covers all bytes before
// them. intent-ID-GROUP-OWNER-TAG is JSON too: the checkpoint, and those it builds upon.
package checkpoint
