# shellcheck shell=bash
# Models reach their bars on real data, with the bits that are promised.

# peak COMMAND... runs it, for a minute at most, its output into $work/out, and
# prints its greatest resident memory in MiB.
peak() {
	local most=0 now pid until=$((SECONDS + 60))
	(cd "$work" && exec "$@") >"$work/out" 2>&1 &
	pid=$!
	while kill -0 "$pid" 2>/dev/null; do
		now=$(awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/$pid/status" 2>/dev/null || true)
		if [ -n "$now" ] && ((now > most)); then most=$now; fi
		((SECONDS < until)) || kill "$pid"
		sleep 0.1
	done
	wait "$pid" || { cat "$work/out"; return 1; }
	echo "$most"
}

# The quick examples reach their AUC in time and memory.
example() {
	local name began mib auc best
	for name in lr clicks; do
		go build -o "$work/" "./examples/$name"
		began=$SECONDS
		mib=$(peak "$work/$name")
		auc=$(grep -oE 'test AUC [0-9.]+' "$work/out" | grep -oE '[0-9.]+')
		best=$(grep -oE 'best possible [0-9.]+' "$work/out" | grep -oE '[0-9.]+')
		echo "$name: test AUC $auc, best possible $best, $((SECONDS - began)) s, peak memory $mib MiB"
		at_least "memory left of 1 GiB, in MiB," $((1024 - mib)) 0
		at_least "AUC of $name" "$auc" "$(awk -v b="$best" -v n="$name" 'BEGIN { print b - (n == "lr" ? 0.03 : 0.01) }')"
	done
}

# medians MODEL SET HOW trains with every seed, HOW being workers and sync, and
# leaves the medians in auc, accuracy and rmse; it prints them and the worst.
# The bars are of medians of five seeds. One will do where all seeds are far
# from the bar; of two workers that do not wait for each other on coupon, whose
# runs differ by 0.01 with one seed, it takes all five.
medians() {
	local seed out last=$seeds
	[ "$2 ${3%%:*}" != "coupon 2 ssp" ] && [ "$2 $3" != "coupon 2 asp" ] || last=5
	use "$1" "$2"
	rm -f "$work"/of.*
	for ((seed = 1; seed <= last; seed++)); do
		case $3 in
		1*) out=$(train --seed "$seed" 2>"$work/err") || { cat "$work/err"; return 1; } ;;
		*) out=$(launch -- --seed "$seed" --sync "${3#* }" 2>"$work/err") || { cat "$work/err"; return 1; } ;;
		esac
		field auc <<<"$out" >>"$work/of.auc"
		field accuracy <<<"$out" >>"$work/of.accuracy"
		field rmse <<<"$out" >>"$work/of.rmse"
	done
	auc=$(median <"$work/of.auc") accuracy=$(median <"$work/of.accuracy") rmse=$(median <"$work/of.rmse")
	printf '%-9s %-7s %-7s ' "$2" "$1" "$3"
	if [ -n "$rmse" ]; then
		printf 'RMSE median %.4f worst %.4f\n' "$rmse" "$(sort -g "$work/of.rmse" | tail -n 1)"
	else
		printf 'AUC median %.4f worst %.4f, accuracy median %.4f worst %.4f\n' "$auc" "$(worst <"$work/of.auc")" "$accuracy" "$(worst <"$work/of.accuracy")"
	fi
}

# The bars on real data with the defaults: one worker, and two in processes of
# their own.
bars() {
	needs_data bars adult-a9a && needs_data bars mushroom && needs_data bars adult && needs_data bars vehicle-coupon && needs_data bars movietweetings || return 0
	local how auc accuracy rmse base
	for how in "1 bsp" "2 bsp" "2 ssp:2" "2 asp"; do
		medians lr a9a "$how"
		at_least "a9a AUC" "$auc" 0.900
		at_least "a9a accuracy" "$accuracy" 0.845
		medians lr mushroom "$how"
		at_least "mushroom AUC" "$auc" 0.999
		[ "$how" != "2 bsp" ] || continue # half the steps: a batch of two workers is twice as large
		medians lr adult "$how"
		at_least "adult AUC" "$auc" 0.903
		medians lr coupon "$how"
		base=$auc
		for model in fm deepfm; do
			medians "$model" coupon "$how"
			at_least "coupon AUC of $model" "$auc" 0.78
			at_least "coupon AUC of $model" "$auc" "$(awk -v b="$base" 'BEGIN { print b + 0.03 }')"
		done
		medians mf ratings "$how"
		at_least "RMSE left of 1.56" "$(awk -v r="$rmse" 'BEGIN { print 1.56 - r }')" 0
		medians lr clicks "$how"
		at_least "clicks AUC" "$auc" 0.80
	done
}

# Killed leaders leave no trace in the bits of bsp, in every run.
same_bits() {
	needs_data same_bits adult-a9a || return 0
	use lr a9a
	local quiet i out
	quiet=$(launch -- --epochs 6 --sync bsp | field digest)
	for ((i = 1; i <= runs; i++)); do
		out=$(launch --kill-leader-every 1s --kills 6,0 -- --epochs 6 --step-delay 20ms --sync bsp)
		at_least "leader kills" "$(field leader_kills <<<"$out")" 4
		echo "run $i: $(field leader_kills <<<"$out") leader kills, longest gap $(field longest_gap_ms <<<"$out") ms, digest $(field digest <<<"$out")"
		equal "digest of run $i and of the undisturbed run" "$(field digest <<<"$out")" "$quiet"
	done
}
