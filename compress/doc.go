// Package compress turns vectors of float32 into fewer bytes and back: gradients, activations, rows of tables.
//
// # Codecs
//
// [Parse] makes a [Codec] of its name. Bytes are of n float32 elements, without the frame; "off" says how far a decoded
// element, or a whole vector x as a point, may be from what was encoded.
//
//	none        4 n              exact
//	bf16        2 n              off by 2^-8 of the element
//	fp16        2 n              off by 2^-11 of the element, or 2^-25; up to 65504
//	int8        260 for 256      off by 0.501/127 of the largest magnitude of its 256, or 2^-100
//	twobit      258 for 1024     0 or +-level, the level of each 1024; |x - decoded| <= |x| + 2^-7 |x|
//	twobit:T    258 for 1024     0 or +-T
//	onebit      130 for 1024     +-mean magnitude of each 1024; |x - decoded| <= |x| + 2^-7 |x|
//	topk:S      8 S n at most    the share S of the elements with the largest magnitudes; |x - decoded|^2 <= (1 - S) |x|^2
//	randomk:S   4 S n            the share S of the elements as a seed draws them; the same on average
//
// # Residuals
//
// The last five are for use with a [Feedback], which keeps what a code did not hold and adds it to the next vector, so
// that nothing is lost, only late. [RowFeedback] does so for the rows of a table, and [Mean] on the way back from where
// the codes of several workers meet. Residuals are part of a checkpoint: without them a restart loses what was late.
// Second moments of what was decoded are not those of gradients: 1-bit Adam (packages optim and worker) therefore sends
// momenta in codes, and takes no squares of them.
//
// # Frames
//
// A code is bare: the two sides know codec and number of elements. A frame ([AppendFrame], [Open]) says what it holds
// and has a checksum. [Source] and [Sink] make and take a frame piece by piece, as transfers of package p2p want it;
// codes of parts can also be put together where [Block] allows it. [AppendRows] makes frames of rows with their keys,
// also of some rows of a tensor that is kept so ([Feedback.AppendRows]): a row has its own scale, or those of the
// codec's blocks if whole ones make a row, rows of fewer than 8 elements share one, topk and randomk take their share
// of all rows, and keys take their differences.
//
// Decoding checks every length, never panics on bytes from outside, and allocates at most 64 bytes for each that is
// given. Encoding refuses what is not finite, but for none and bf16, which keep it; with a residual they refuse it too.
//
// # Which codec
//
// [Choose] takes the fastest for a link, by the speeds that [Measure] finds, where a less exact codec must be faster by
// a tenth. [Auto] remembers besides which codec kept too much back, by the length of its residual in gradients, and
// leaves it for a time.
//
// Equal input gives equal bytes on every machine, and equal bytes equal vectors.
package compress
