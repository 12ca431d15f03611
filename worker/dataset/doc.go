// Package dataset reads training data as a stream of batches in bounded memory.
//
// Open a Reader and call Next until it reports the end of the epoch; call Next
// again for the next one. The files are streamed anew each epoch and are never
// held in memory: what is held is one shuffling window (WindowRows rows, fewer
// when rows are very long) and the caller's Batch.
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
// libsvm: `label index:value index:value ...`, one row a line. Labels are -1, 0
// or 1 and are mapped to 0 and 1. Indices are unsigned 64-bit integers, from 0
// or from 1, rising within a row; they become keys unchanged. Values are finite
// float32; explicit zeros say the same as an absent entry and are dropped.
// Fields are separated by blanks or tabs, lines end in LF, CRLF or CR, text
// after `#` is a comment, blank lines are no rows. A file that begins with the
// gzip magic is decompressed, all its members. What is malformed is a *RowError
// naming file, line, column and value.
//
// # Goroutines
//
// The package starts none. A Reader belongs to one goroutine at a time.
package dataset
