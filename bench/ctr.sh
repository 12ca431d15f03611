#!/usr/bin/env bash
# Training speed beside a peer's: torch on CPUs, through a program given by
# HCCLPS_PEERS. Both train lr, fm and a deep model (256-128-64) on batches of
# 2048 rows of 26 ids, Zipf(1.1) over 10^6, and 13 numbers, made before the clock
# starts, with two threads in all: the peer as one process and as two, ours as
# one worker and as two, on one server without replication and on three with,
# servers in the same process. deepfm has a factorisation machine beside the
# peer's deep model, widedeep a linear part.
#
#	ROUNDS=3 SECS=3 bench/ctr.sh [MODEL...]
#
# Runs take turns; the median of each is printed, and its ratio to the peer's
# faster form. Figures of two runs of this script are not comparable.
set -euo pipefail
cd "$(dirname "$0")/.."

peer=${HCCLPS_PEERS:-../shared/peers/ctr.py}
python=${PYTHON:-/usr/bin/python3}
rounds=${ROUNDS:-3} secs=${SECS:-3}
models=("$@")
[ ${#models[@]} -gt 0 ] || models=(lr fm deepfm widedeep)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

with_peer=yes
if ! [ -f "$peer" ] || ! "$python" -c 'import torch' 2>/dev/null; then
	with_peer=
	echo "no peer: want $peer (HCCLPS_PEERS) and torch in $python (python3-torch)"
fi

# peer_runs MODEL: samples/s of the peer's counterpart.
peer_runs() {
	local name=deep form rate
	case $1 in lr | fm) name=$1 ;; esac
	for form in "2 1" "1 2"; do
		# shellcheck disable=SC2086 # two arguments: threads and processes
		rate=$("$python" "$peer" "$name" adagrad $form "$secs" | sed -n 's|.* samples/s \([0-9]*\) .*|\1|p')
		echo "$1 peer,processes=${form#* } ${rate:?the peer printed no samples/s}"
	done
}

# our_runs MODEL: samples/s, and nanoseconds of CPU a sample.
our_runs() {
	(cd worker/model && GOMAXPROCS=2 "$work/train.test" -test.run '^$' -test.bench "Train/^$1\$" -test.benchtime "${secs}s") |
		awk '/ rows\/s/ {
			split($1, name, "/"); sub(/-[0-9]+$/, "", name[4])
			for (i = 3; i < NF; i++) { if ($(i + 1) == "rows/s") rate = $i; if ($(i + 1) == "cpu-ns/row") cpu = $i }
			print name[2], name[3] "," name[4], rate, cpu
		}'
}

# table prints the medians of lines MODEL FORM RATE [CPU], and ratios.
table() {
	sort -k1,1 -k2,2 -k3,3g | awk '
		{
			key = $1 " " $2
			if (!(key in n)) { order[++keys] = key; cpu[key] = $4 }
			v[key, ++n[key]] = $3
			if ($4 < cpu[key]) cpu[key] = $4
		}
		END {
			for (i = 1; i <= keys; i++) {
				key = order[i]; split(key, part, " ")
				median[key] = v[key, int((n[key] + 1) / 2)]
				if (part[2] ~ /^peer/ && median[key] > best[part[1]]) best[part[1]] = median[key]
			}
			printf "%-10s %-22s %12s %10s %8s\n", "model", "form", "samples/s", "cpu ns", "ratio"
			for (i = 1; i <= keys; i++) {
				key = order[i]; split(key, part, " ")
				printf "%-10s %-22s %12d", part[1], part[2], median[key]
				printf " %10s", cpu[key] ? sprintf("%d", cpu[key]) : "-"
				printf " %8s\n", best[part[1]] ? sprintf("%.2f", median[key] / best[part[1]]) : "-"
			}
		}'
}

go test -c -o "$work/train.test" ./worker/model
for round in $(seq "$rounds"); do
	for model in "${models[@]}"; do
		echo "round $round: $model" >&2
		[ -z "$with_peer" ] || peer_runs "$model" >>"$work/rates"
		our_runs "$model" >>"$work/rates"
	done
done
table <"$work/rates"
