# shellcheck shell=bash
# What kernels, the binding, codecs beside wires, and pushes cost beside what there is to compare them with.

# Every kernel beside its twin by gcc -O3 -march=native, in turns on the same memory, by CPU time; a tenth has the smallest size alone. Bits are compared by
# the tests.
kernels() {
	local size='.*' below
	if ! command -v gcc >/dev/null || [ "$(go env GOARCH)" != amd64 ]; then
		not_run+=("kernels (no gcc for amd64)")
		return 0
	fi
	[ "$PROOF" = full ] || size='^64KiB$'
	go test -run '^$' -bench "PeerNeedsGcc/./$size" -benchtime 1x -timeout 90m ./internal/vec >"$work/kernels" || { cat "$work/kernels"; return 1; }
	awk '$1 ~ /^BenchmarkPeer/ { sub(/^[^\/]*\//, "", $1); sub(/-[0-9]+$/, "", $1); print $NF == "ratio" ? $(NF - 1) : "missing", $1 }' \
		"$work/kernels" | sort -g >"$work/ratios"
	awk '{ split($2, cell, "/"); row[cell[1]] = row[cell[1]] " " cell[2] " " $1 } END { for (k in row) print k ":" row[k] }' "$work/ratios" | sort
	below=$(awk '$1 < 0.9 { printf "%s (%s) ", $2, $1 }' "$work/ratios")
	echo "kernels below 0.9 of their twins' speed: ${below:-none of $(wc -l <"$work/ratios")}"
	speed_at_least "speed of $(head -n 1 "$work/ratios" | cut -d ' ' -f 2), by that of its twin in C," "$(head -n 1 "$work/ratios" | cut -d ' ' -f 1)" 0.9
}

# What a call of the binding costs over the same call from C.
binding_cost() {
	command -v cc >/dev/null || { not_run+=("binding_cost (no C compiler for the simulator)"); return 0; }
	go test -run '^$' -bench '^BenchmarkCall$/^Send' -benchtime 300ms ./p2p/hccl/acl | grep ns/op | tee "$work/cost"
	local over
	over=$(awk '/SendFromC/ { c = $3 } /\/Send-|\/Send / { g = $3 } END { if (c && g) print g - c }' "$work/cost")
	echo "a call costs $over ns over C"
	speed_at_least "ns left of 1000 a call" "$(awk -v o="$over" 'BEGIN { print o == "" ? "" : 1000 - o }')" 0
}

# Codec, wire and apply work beside each other: over a link of 1 GB/s the whole
# takes at most 1.15 of the slowest part, in shared memory 0.8 of codec and copy
# in turn. The best of some runs counts: others may use the machine.
overlap() {
	local out slowest turn
	out=$(timeout 300 go test -run '^$' -bench 'Overlap|CodecInRing' -benchtime 10x -count "$overlaps" ./p2p)
	slowest=$(grep -oE '[0-9.]+ x-slowest' <<<"$out" | cut -d' ' -f1 | worst)
	turn=$(grep -oE '[0-9.]+ x-in-turn' <<<"$out" | cut -d' ' -f1 | worst)
	echo "overlap: $slowest x the slowest part on a link of 1 GB/s, $turn x codec and copy in turn in shared memory, the best of $overlaps"
	speed_at_least "1.15 without the overlap's factor" "$(awk -v x="$slowest" 'BEGIN { print 1.15 - x }')" 0
	speed_at_least "0.8 without the ring's factor" "$(awk -v x="$turn" 'BEGIN { print 0.8 - x }')" 0
}

# One worker pushes and pulls a dense tensor at one server that keeps no log:
# contents are right, and what ps-lite did is beside it: 3 x that over shm,
# 1.2 x over tcp, at 64 MiB scaled by what memory copies now and did there
# (13.8 GB/s). The bars are for a quiet machine; half of one is demanded, and in
# CI nothing.
pushes() {
	local transport out line op size algbw bar ratio
	for transport in shm tcp; do
		out=$(timeout 300 "$work/ps-worker" bench pushpull --embedded 1 --replicas 0 --transport "$transport" --rounds 3 --time "$push_time" --json)
		while read -r line; do
			op=$(field op <<<"$line") size=$(field size <<<"$line") algbw=$(field algbw <<<"$line")
			equal "wrong weights of $op over $transport" "$(field wrong <<<"$line")" 0
			case $op$size in
			push1048576) bar=3.00 ;; push4194304) bar=2.58 ;; push67108864) bar=1.14 ;;
			pull1048576) bar=3.26 ;; pull4194304) bar=2.80 ;; pull67108864) bar=1.10 ;;
			*) echo "no bar for $line"; return 1 ;;
			esac
			ratio=$(awk -v v="$algbw" -v bar="$bar" -v t="$transport" -v n="$size" -v now="$(field memcpy <<<"$line")" \
				'BEGIN { print v / (bar * (t == "shm" ? 3 : 1.2) * (n > 4194304 ? now / 13.8 : 1)) }')
			echo "$op of $size bytes over $transport: $algbw GB/s, $ratio of the bar"
			speed_at_least "$op of $size bytes over $transport, of its bar," "$ratio" 0.5
		done < <(grep '^{' <<<"$out")
	done
}
