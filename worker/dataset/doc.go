// Package dataset reads training data as a stream of batches in bounded memory.
//
// Open a Reader and call Next until it reports the end of the epoch; call Next
// again for the next one. The files are streamed anew each epoch and are never
// held in memory: what is held is one shuffling window (WindowRows rows, fewer
// when rows are very long), the side tables, and the caller's Batch.
//
// # Features
//
// A Batch holds the label, the weight and the features of its rows: sparse ones
// as bags of 64-bit ids (Ragged), others as numbers. A Schema says which columns
// become which features; ReadSchema reads it from a features file:
//
//	columns: [user, movie, rating, time]   # only of data without a header
//	features:
//	  - {name: label, column: rating, kind: label, at_least: 8}
//	  - {name: user, kind: id, dim: 16}
//	  - {name: movie, kind: id, as: text, dim: 16}
//	  - {name: year, column: title, kind: id, match: '\((\d{4})\)$'}
//	  - {name: genres, kind: ids, separator: "|", pooling: mean}
//	  - {name: when, column: time, kind: numeric, transform: quantile, buckets: 20}
//	  - {name: user_year, kind: cross, of: [user, year]}
//	join:
//	  - {file: movies.dat, format: ratings, columns: [movie, title, genres], key: movie}
//
// The fields of Feature and Join say what else there is. Without features, every
// column but the label becomes one: numbers 20 quantile buckets, text an id,
// text of which more than half of the values hold a | several ids. What is
// inferred or fitted comes from the first 100,000 selected rows, and is part of
// Reader.Schema: stored with the model, it makes evaluation and prediction agree
// with training. Inspect writes what is inferred as a features file, Check
// counts what a features file makes of the data.
//
// An id that is a decimal number without leading zeros is that number, from 0 to
// 2^64-1; any other text is hashed to 64 bits of (table, text), so that features
// that share a table share the ids of equal texts. Bucket i of a numeric feature
// holds the values from edge i-1 to below edge i; the id behind the last bucket
// is that of missing values.
//
// # Order
//
// Batch b of an epoch is a pure function of (files, seed, epoch, b, batch
// size): the stream is cut into windows, the rows of a window are permuted by
// (seed, epoch, window), and batches are consecutive runs of exactly the batch
// size of the result, the last one of an epoch being short. A worker that was
// killed therefore continues at its cursor with Seek and sees the same rows;
// workers that share an epoch take the batches b = rank modulo world.
//
// # Formats
//
// csv and tsv: fields separated by commas or tabs. A field may be quoted by
// RFC 4180 and then hold separators, line ends and doubled quotes; around other
// fields blanks do not count. Bytes are kept as they are: UTF-8, Latin-1 or
// hashes. A file has a header unless its columns are named in the features file
// and differ from its first line, or its label is called c0, c1, ... and is not
// in it; Config.Header overrides that. Columns without a name are c0, c1, ...
// All files have the same header, and every row as many fields.
//
// criteo: tabs, no header, no quotes: a label, 13 numbers, 26 ids.
//
// ratings: user, item, rating and more, separated by ::, tab or comma. Without
// features user and item are ids and the rating is the label, as a number. A
// first line of three texts is a header.
//
// libsvm: `label index:value index:value ...`, with rising indices, which become
// keys unchanged, in one feature named Features. libfm: the same with a number
// as label and indices in any order. libffm: `label field:index:value ...`, each
// field being a feature named f0, f1, ... Values are finite float32; explicit
// zeros say the same as an absent entry and are dropped. Text after `#` is a
// comment.
//
// In all formats lines end in LF, CRLF or CR, blank lines are no rows, a byte
// order mark is skipped, and a file that begins with the gzip magic is
// decompressed, all its members. Labels are -1, 0 or 1, and -1 means 0, unless a
// Label says otherwise. What is malformed is a *RowError naming file, line,
// column and value.
//
// # Goroutines
//
// The package starts none. A Reader belongs to one goroutine at a time.
package dataset
