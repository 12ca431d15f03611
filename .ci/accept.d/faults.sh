# shellcheck shell=bash
# Servers and workers are killed, and histories judged.

# Leaders and workers are killed in mid-training; every batch counts once.
# killed EPOCHS prints what came of it, by the flags of the last use.
killed() {
	local out
	# On disk a step spends longest between the log and the answer: kills hit it there.
	out=$(launch --durability quorum-disk --kill-leader-every 1s --kill-worker-every 5s --kills "$kills" -- --epochs "$1" --step-delay 2ms --sync bsp)
	grep '^{' <<<"$out" | tail -n 1
	at_least "leader kills" "$(field leader_kills <<<"$out")" "$least_leaders"
	at_least "worker kills" "$(field worker_kills <<<"$out")" "$least_workers"
	at_least "duplicates answered" "$(field duplicate_pushes <<<"$out")" "$least_duplicates"
	equal "batches and applied pushes" "$(field batches <<<"$out")" "$(field applied_pushes <<<"$out")"
	auc=$(field auc <<<"$out")
	echo "first push after a leader kill: $(grep -o '"recovery_ms":{[^}]*}' <<<"$out") (goal: median 800, worst 2000)"
}
kill_run() {
	needs_data kill_run adult-a9a || return 0
	local auc
	use lr a9a
	killed "$kill_epochs"
	at_least "a9a AUC" "$auc" 0.900
}
kill_deep() {
	needs_data kill_deep vehicle-coupon || return 0
	local auc
	use deepfm coupon
	least_duplicates=0 killed $((kill_epochs * 5 / 2))
	at_least "coupon AUC of deepfm" "$auc" 0.78
}

# The verifier over seeded faults, and the planted bugs it must find.
verifier() { make --no-print-directory sim SEEDS="$sim_seeds"; }

# A lost log never votes. Real kills of real processes.
lost_log() {
	go test -count=1 -timeout 5m -v -run 'Lost|Kill' ./ps/... | { grep -E '^(--- |ok|FAIL|panic)' || true; } | grep -v 'no tests to run' | tee "$work/lost"
	at_least "tests of lost logs passed" "$(grep -c '^--- PASS' "$work/lost")" 5
}
