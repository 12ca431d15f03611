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
// Run frees the disk of units that were written over.
//
// A key is the number of the table and of the unit, 4 bytes each, big endian, so that units of a table lie in order. A value is the unit, then
// its CRC-32C over key and unit, and its length, 4 bytes each, little endian: Badger returns damaged bytes without an error.
package cold
