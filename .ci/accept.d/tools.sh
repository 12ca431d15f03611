# shellcheck shell=bash
# What an operator asks: profiles and the doctor.

# The profiles of a job of two workers and three servers make sense as one, say what they should, and cost little. Workers that
# sum gradients themselves are profiled too, and one that is told to quit leaves its last operations, as does the one that loses it.
profile() {
	needs_data profile adult-a9a || return 0
	use lr a9a
	local out said name i pair off on pids=()
	out=$(launch --profile "$work/ps.json" -- --epochs 2 2>/dev/null)
	said=$("$work/ps-worker" profile --json --merge "$work/merged.json" "$work"/ps.*.json)
	equal "processes" "$(field processes <<<"$said")" 5
	equal "steps of two workers" "$(field steps <<<"$said")" $((2 * $(field steps <<<"$out")))
	equal "flows with one end" "$(field unmatched_flows <<<"$said")" 0
	for name in step forward backward read pull push wait apply propose; do
		grep -q "\"name\":\"$name\"" <<<"$said" || { echo "no $name in $said"; return 1; }
	done
	"$work/ps-worker" profile "$work/merged.json" # merged it is as good

	out=$(timeout 300 "$work/ps-worker" launch -n 2 --servers 0 --profile "$work/ar.json" -- \
		"$work/ps-worker" train "${job[@]}" --mode allreduce --epochs 2 2>/dev/null)
	said=$("$work/ps-worker" profile --json "$work"/ar.*.json)
	equal "steps of two workers" "$(field steps <<<"$said")" $((2 * $(field steps <<<"$out")))
	grep -q '"category":"collective","name":"allreduce' <<<"$said" || { echo "no allreduce in $said"; return 1; }

	mkdir "$work/flights"
	export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM % 10000))
	for i in 0 1; do
		RANK=$i timeout 300 "$work/ps-worker" train "${job[@]}" --job flights --mode allreduce --epochs 1000 --step-delay 5ms \
			--max-rebuilds 0 --flights "$work/flights" >"$work/out.$i" 2>&1 &
		pids[i]=$!
	done
	unset WORLD_SIZE MASTER_ADDR MASTER_PORT
	for ((i = 0; i < 300; i++)); do
		sleep 0.1
		grep -q 'epoch [2-9]' "$work/out.0" && break
	done
	kill -QUIT "${pids[1]}" # timeout hands it on
	for i in 0 1; do
		if wait "${pids[i]}"; then echo "worker $i of a job that has lost one ends well"; return 1; fi
	done
	said=$("$work/ps-worker" profile "$work"/flights/*.json) || { cat "$work"/out.?; return 1; }
	for name in 'worker-1, rank 1 of 2, .*: SIGQUIT' 'worker-0, rank 0 of 2'; do
		grep -q "$name" <<<"$said" || { echo "no $name in $said"; return 1; }
	done
	tail -n 2 <<<"$said"

	for ((pair = 1; pair <= 7; pair++)); do
		off=$(train --epochs 20 2>/dev/null | field samples_per_s)
		on=$(train --epochs 20 --profile "$work/one.json" 2>/dev/null | field samples_per_s)
		echo "$off $on"
	done >"$work/pairs"
	out=$(awk '{ print $1 / $2 }' "$work/pairs" | median)
	said=$(awk '{ if ($1 > off) off = $1; if ($2 > on) on = $2 } END { print off / on }' "$work/pairs")
	echo "time of training with a profile, by that without: median of 7 pairs $out, of the best of each $said"
	speed_at_least "percent left of 5" "$(awk -v r="$said" 'BEGIN { print 100 * (1.05 - r) }')" 0 # others may be busy: the best runs are judged
}

# The doctor tells the truth about this machine: no CANN, or the simulator.
doctor() {
	local said sim
	said=$("$work/ps-worker" doctor) || { echo "$said"; echo "doctor says that something fails here"; return 1; }
	grep -E '^[a-z]* +cann' <<<"$said"
	if [ -z "${HCCLPS_CANN_LIB-}" ] && ! compgen -G '/dev/davinci*' >/dev/null; then
		grep -q 'no CANN on this machine' <<<"$said" || { echo "$said"; echo "doctor does not say that there is no CANN"; return 1; }
	fi
	simulator
	[ -n "$sim" ] || { not_run+=("doctor with the simulator (no C compiler)"); return 0; }
	said=$(HCCLPS_CANN_LIB=$sim HCCL_SIM_QUIET=1 "$work/ps-worker" doctor) || { echo "$said"; return 1; }
	grep -E '^[a-z]* +cann' <<<"$said"
	grep -qi simulator <<<"$said" || { echo "$said"; echo "doctor does not say that it is a simulator"; return 1; }
}
