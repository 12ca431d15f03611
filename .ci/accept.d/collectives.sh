# shellcheck shell=bash
# Collective operations are right, fusing them is worth it, and jobs train over them.

# Every operation is right over shared memory and tcp, HCCL's own on the simulator; fused tensors beside one tensor of the same bytes, of which the best of some
# rounds counts (the bar is 1.5; on a machine that others use it may be missed, and CI demands nothing); whole proofs show all bars beside the peers that
# are installed.
collectives() {
	local op ranks transport out one many ratio
	for transport in shm tcp; do
		for ranks in 2 4; do
			for op in allreduce reducescatter allgather broadcast alltoall; do
				out=$(timeout 180 "$work/ps-worker" bench "$op" --ranks $ranks --transport $transport --sizes 8,1000,1MiB --rounds 1 --time 10ms --json)
				equal "sizes of $op that are right, $ranks ranks over $transport" "$(grep -c '"wrong":0}' <<<"$out")" 3
			done
		done
	done
	if command -v gcc >/dev/null; then
		[ -e "$work/sim" ] || go run ./cmd/hccl-sim "$work/sim" >/dev/null
		for op in allreduce reducescatter allgather broadcast alltoall; do
			out=$(HCCLPS_CANN_LIB=$work/sim/libhccl_sim.so HCCL_SIM_QUIET=1 timeout 180 "$work/ps-worker" bench "$op" \
				--ranks 3 --transport hccl --sizes 1000,1MiB --rounds 1 --time 10ms --json)
			equal "sizes of $op that HCCL itself has right" "$(grep -c '"algo":"native".*"wrong":0}' <<<"$out")" 2
		done
	else
		not_run+=("collectives over hccl (no gcc)")
	fi
	for ranks in 2 4; do
		one=$(timeout 180 "$work/ps-worker" bench allreduce --ranks $ranks --sizes 4MiB --rounds 10 --time "$fused_time" --json | field best)
		many=$(timeout 180 "$work/ps-worker" bench allreduce --ranks $ranks --sizes 4MiB --tensors 1000 --scattered \
			--rounds 10 --time "$fused_time" --json | field best)
		ratio=$(awk -v a="$many" -v b="$one" 'BEGIN { printf "%.2f", a / b }')
		echo "fusion: 1,000 scattered tensors of 4 KiB take $ratio x one of 4 MiB, $ranks ranks"
		speed_at_least "1.5 without that" "$(awk -v x="$ratio" 'BEGIN { print 1.5 - x }')" 0
	done
	[ "$PROOF" != full ] || ROUNDS=3 TIME=0.2 bench/peers.sh collectives
}

# The same job with servers, without them, and with tables on servers alone: by rank order the same bits, by any order the same loss.
modes() {
	needs_data modes adult-a9a && needs_data modes vehicle-coupon || return 0
	local model bar n m seed out want loss base
	for model in lr deepfm; do
		case $model in
		lr) use lr a9a && bar=0.900 ;;
		deepfm) use deepfm coupon && bar=0.78 ;;
		esac
		for n in 1 2 3; do
			want=$(mode ps "$n" 2>"$work/err") || { cat "$work/err"; return 1; }
			for m in allreduce hybrid; do
				out=$(mode "$m" "$n" --reduce-order rank 2>"$work/err") || { cat "$work/err"; return 1; }
				printf '%s, %s workers, %s: AUC %s, digest %.8s, %.8s with servers\n' "$model" "$n" "$m" "$(field auc <<<"$out")" \
					"$(field digest <<<"$out")" "$(field digest <<<"$want")"
				equal "digest of $model, $n workers, $m" "$(field digest <<<"$out")" "$(field digest <<<"$want")"
				at_least "AUC of $model, $n workers, $m" "$(field auc <<<"$out")" "$bar"
			done
		done
		for ((seed = 1; seed <= seeds; seed++)); do
			base=$(mode ps 3 --seed "$seed" 2>"$work/err" | field logloss) || { cat "$work/err"; return 1; }
			for m in allreduce hybrid; do
				loss=$(mode "$m" 3 --seed "$seed" 2>"$work/err" | field logloss) || { cat "$work/err"; return 1; }
				echo "$model, seed $seed, $m in any order: log loss $loss, $base with servers"
				at_least "closeness of the losses" "$(awk -v a="$loss" -v b="$base" 'BEGIN { d = a / b - 1; print 1e-3 - (d < 0 ? -d : d) }')" 0
			done
		done
	done
}

# Workers that sum gradients are killed in mid-training, and come again: the others
# go on, and end with one digest, at the bar. One that dies again and again ends the job.
mode_kills() {
	needs_data mode_kills adult-a9a || return 0
	local out m servers kills=$((2 * ${kills#*,}))
	use lr a9a
	for m in allreduce hybrid; do
		servers=3
		[ "$m" != allreduce ] || servers=0
		out=$(timeout 300 "$work/ps-worker" launch -n 8 --servers "$servers" --kill-worker-every 1500ms --kills "0,$kills" -- \
			"$work/ps-worker" train --mode "$m" --max-rebuilds 20 --step-delay 20ms --epochs $((5 * kills + 6)) "${job[@]}" 2>"$work/err") || {
			tail "$work/err"
			return 1
		}
		grep '^{' <<<"$out" | tail -n 1
		at_least "worker kills, $m" "$(field worker_kills <<<"$out")" "$kills"
		at_least "a9a AUC, $m" "$(field auc <<<"$out")" 0.900
	done
	out=$(timeout 300 "$work/ps-worker" launch -n 3 --servers 0 --kill-worker-every 1s --kills 0,9 -- \
		"$work/ps-worker" train --mode allreduce --max-rebuilds 1 --step-delay 20ms --epochs 60 "${job[@]}" 2>&1) && {
		echo "a job whose workers die again and again ended well"
		return 1
	}
	grep -m 1 'max-rebuilds' <<<"$out"
}
