// Package trace records what a process does when, and shows it: spans, marks and memory over time, in the trace event format that Perfetto
// (ui.perfetto.dev) and chrome://tracing open.
//
// # Recording
//
// A [Recorder] is off until [Recorder.Start]. Whatever is worth a line in the picture takes a [Track] once and measures with it:
//
//	train := rec.Track("train", "train")   // spans of one goroutine, which nest
//	sends := rec.Lanes("transfer", "send") // spans of many at the same time, which do not
//
//	s := train.Begin("step")
//	s.Step = 7
//	...
//	s.End()
//
// A nil Recorder, and one that is off, costs one comparison a span; no caller needs to ask. One that is on costs about a tenth of a microsecond a span and
// holds a bounded number of them, the newest. Spans begun while it was off are not recorded, nor are those that never ended.
//
// Spans of two processes are tied by flows: the one gives [Span.Out] a number, the other [Span.In] the same. [FlowID]
// makes such numbers from what both sides know.
//
// # Reading
//
// [Recorder.Trace] is what was recorded, as a [Trace]; [Trace.Write] and [Read] are its file. [Merge] puts the traces of several processes on
// one clock, [Check] says what is wrong with a trace as a whole, [Trace.Summarize] counts and adds up.
//
// # The file
//
// It is a JSON object of the trace event format, a line an event. "otherData" says that it is ours, and how times become those of a clock:
//
//	format, version   "hcclps trace", 1
//	origin            what times count from
//	processes         of each: id, name, origin by its own clock, shift_ns that Merge has added, lost records
//
// "traceEvents" has, in order of time, spans (X), marks (i), samples (C), and ends of flows (s, f); before them names (M). ts and dur are microseconds with
// three decimals; the args of a span are step, bytes, peer and table, those that it has. Read refuses other events, and says line and column.
//
// A [Flight] is the other thing that a process leaves: its last collective operations, when something went wrong.
package trace
