// Package cold keeps what tables have no memory for, on disk, in Badger: the stores of package table.
//
//	store, err := cold.Open(cold.Config{Dir: dir, Memory: memory})
//	spec.Memory, spec.Cold = memory, store.Table
//	...
//	err = store.Close()
//
// It is a cache that has been turned inside out: what is in it belongs to tables of this process, and their rows are in logs, snapshots and checkpoints.
// So the folder is emptied at Open and at Close, nothing is ever synced, and whatever cannot be read ends the tables that wanted it. The database
// is made with the first unit that goes cold: a server whose tables fit in memory pays nothing.
//
// Units that are written together share a value of the database, a segment (segment.go has its bytes); the store knows in memory which segment a unit is
// in, and where Badger has put it. So a unit costs a copy and a checksum to write, and one read of a file to read, at the same time as all others of a
// call (files.go); what is not there any more is searched in the database's tree, which is tiny. A unit that is written anew leaves a gap in its old
// segment. Run moves what is left of segments that are mostly gaps, and then frees the files of the value log that are mostly garbage.
//
// Every unit has a CRC-32C of ours: Badger returns damaged bytes without an error.
//
// Nothing is written where the disk has less room than two files of the value log, and nothing more after Badger has told of an error: the rows stay in
// memory then, Table.Trouble says why, and what is there is read on. Units of a closed table leave the disk as Run comes to it.
package cold
