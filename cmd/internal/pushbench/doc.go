// Package pushbench measures pushes and pulls of a dense tensor by one worker: all that a training step does with a layer's gradient and weights,
// from the worker's memory into the servers' tables and back.
//
// [Run] is the worker; the servers are somewhere else. A size is measured in rounds of pushes and rounds of pulls in
// turn, one operation after another, of which the median round counts. The rule is plain descent with rate 1 over small
// whole numbers, so that the weights are known to the bit after any number of pushes; they are compared outside the
// timed part. Beside each result stands what a plain copy of memory took just then, by which the results of two
// machines, or of two hours of a shared one, can be compared.
package pushbench
