# shellcheck shell=bash
# Readers, decoders, kernels and apply on random input.

# fuzz TARGET PACKAGE TIMES runs a fuzz target so many times; a finding is
# printed whole, with the input that go test has put into the corpus.
fuzz() {
	go test -run '^$' -fuzz "^$1\$" -fuzztime "$3x" -timeout 90m "$2" >"$work/fuzzing" 2>&1 || {
		cat "$work/fuzzing"
		return 1
	}
	tail -n 3 "$work/fuzzing"
}

apply_fuzz() { fuzz FuzzApply ./ps/shard "$fuzzed"; }

# Every reader of data: the eight formats share FuzzReader, which chooses one by
# its input, so it runs eight times as often.
reader_fuzz() {
	local target
	for target in FuzzParseLibsvm FuzzParseLibffm FuzzParseLibfm FuzzRecords FuzzEncode FuzzParseSchema; do
		fuzz "$target" ./worker/dataset "$fuzzed"
	done
	fuzz FuzzReader ./worker/dataset "$fuzzed_readers"
}

kernel_fuzz() { fuzz FuzzKernels ./internal/vec "$fuzzed"; }

# Every decoder of codes and of checkpoints. CI fuzzes them with all others.
codec_fuzz() {
	local target
	for target in FuzzOpen FuzzDecode FuzzEncode; do fuzz "$target" ./compress "$fuzzed"; done
	for target in FuzzPack FuzzPart FuzzManifest FuzzTensors FuzzExportManifest; do fuzz "$target" ./checkpoint "$fuzzed"; done
}
