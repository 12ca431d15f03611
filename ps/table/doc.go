// Package table stores the rows of one table in one shard: weights and optimizer slots side by side, found by 64-bit key.
//
// An embedding table has a row a key. A dense tensor is cut into blocks of 1,024 elements, and a block is a row whose key is its index; so
// there is one kind of table.
//
//	t, err := table.New(table.Spec{Dim: 16, Slots: 1, SlotInit: []float32{0.1}, Init: table.Init{Kind: "normal", B: 0.01}})
//	err = t.Apply(keys, grads, table.Stamp{Step: 7}, updater) // the only writer; creates what is missing
//	t.Gather(keys, out)                                       // reads; computes what is missing, and creates nothing
//	n := t.Delete(keys)                                       // they are missing again
//
// # Who may call what at the same time
//
// The owner holds a sync.RWMutex. Apply, Put, Delete, Load, Capture and Close are called under its write lock; Gather, Row, Scan and Stats under its read lock,
// any number of them at once. Warm and Cool take the lock themselves. Reserve is called without the lock by the goroutine that applies. A Capture's methods are called without the
// lock: Pages takes the reader's side itself, a few pages at a time.
//
// # Memory
//
// Rows lie in copy units of 8 rows (fewer where 8 are more than 4 KiB), units in slabs mapped outside the Go heap, as are the copies that a Capture holds; nothing in them is a pointer. The
// index holds a row's number, unit x rows + place; only a deletion moves a row, the last of its partition, into the gap. Each of the 1,024 partitions has its own index (index.go),
// which grows by splitting pieces of a few hundred rows: no call ever pays for a rehash of the whole. Lookups go in windows of 64 keys whose cache misses overlap.
// With everything counted (index, directories, unused parts of units and slabs) a row costs at most 1.3 x (4 x (dim + slots) + 16) bytes
// for dim from 16 and payload + 32 below, at any count from 10^6.
//
// # Rows outside of memory
//
// A table whose Spec has Memory and Cold moves units that were not used for longest to that store, when the bytes of all tables that share Memory come
// near its limit, and has them back when they are used. It is local and invisible: every method sees the same table, and replicas may differ in
// what is cold. The keys of cold rows stay in memory, some 17 bytes a row with the index, so a lookup never reads the store.
//
// Cool makes room; the owner calls it from a goroutine of its own when Tight says so. Warm brings in the rows of keys before they are read or
// written, so that neither happens under the owner's lock; both take the lock themselves, shortly, and are called without it. What was not warmed is read
// under the lock: Apply and its like bring it back, Gather, Row, Scan and Visit read it and leave it where it is. Where the store cannot be read, Err says
// so, and the table must not be used any more. Where it cannot be written, rows stay in memory and Trouble says why.
//
// A unit that came back for one step goes first, the others by a clock with counters. In order of arrival, which units keep, rows of a Zipf law
// lie about as well as they can: the rows that are used most came first.
//
// # Initial rows
//
// The weights of a row that is not there are a pure function of (seed, key): x(i) = mix(mix(key XOR seed) + (i + 1) x 0x9e3779b97f4a7c15), where mix is
// vec.Mix64's; its top 24 bits are u, of which the top one is the sign of a normal draw. uniform: A + (B - A) x u / 2^24. normal: A + B x z(u), z linear between
// 4,097 points of the inverse distribution function, of which half are in normal_table.go; the last is 3.99, so no draw is further out.
// truncnormal: the same with u scaled into the mass within two deviations. xavier_uniform: +-sqrt(6 / (fan in + fan out)), xavier_normal: deviation
// sqrt(2 / (fan in + fan out)) (Glorot and Bengio, AISTATS 2010); he_uniform: +-sqrt(6 / fan in), he_normal: sqrt(2 / fan in) (He et al., ICCV 2015).
// Slots begin at Spec.SlotInit. The bits are the same on every CPU.
//
// # Format of a row and of a page
//
// All numbers are little endian. A row record has 16 + 4 x (dim + slots) bytes, in memory and in a page:
//
//	offset  bytes
//	0       8      key
//	8       4      step of the last update
//	12      2      sightings: updates, at most 65,535; with Stamp.Halving halved at multiples of it
//	14      2      last writer: index into the shard's table of names
//	16      4 x dim    weights, float32
//	...     4 x slots  optimizer state of the row, float32
//
// A page is up to 8 units (64 rows, fewer if units are smaller) of one partition, in order of arrival; all pages of a partition but the last are full:
//
//	offset  bytes
//	0       2      number of rows; 0: the page has become empty
//	2       ...    that many row records
//
// The place of a page is its PageID, which is kept beside the data, as are checksum and version, by whoever stores pages.
// A page is dirty from the first write after a Capture to the next Capture that emits it: each unit carries the epoch of its last write.
package table
