# shellcheck shell=bash
# Every transport carries the same job, keeps the promises of a Comm, and outlives what networks and peers do.

# The same job over every transport: with a worker and servers killed it meets
# its bar, with servers killed it ends with the same bits.
transports() {
	needs_data transports adult-a9a && needs_data transports vehicle-coupon || return 0
	local certs=$work/certs model bar out digest how quiet
	"$work/ps-server" certs --out "$certs" >/dev/null
	go run ./cmd/hccl-sim "$work/sim" >/dev/null
	export HCCLPS_CANN_LIB=$work/sim/libhccl_sim.so HCCL_SIM_QUIET=1
	for model in lr deepfm; do
		case $model in
		lr) use lr a9a && bar=0.900 ;;
		deepfm) use deepfm coupon && bar=0.78 ;;
		esac
		digest=
		for how in \
			"--transport shm --no-fallback" \
			"--transport tcp --tcp" \
			"--transport tcp --tcp --tls-cert $certs/server.crt --tls-key $certs/server.key --tls-ca $certs/ca.crt" \
			"--transport hccl --devices 0-1 --server-devices 2-4"; do
			# shellcheck disable=SC2086 # words on purpose
			out=$(launch $how --kill-leader-every 1s --kill-worker-every 2s --kills "$transport_kills" -- \
				--epochs "$transport_epochs" --step-delay 2ms --sync bsp 2>"$work/err") || { cat "$work/err"; return 1; }
			printf '%-7s %-33s AUC %.4f, %s leaders and %s workers killed, %s retried pushes\n' "$model" "$(cut -d' ' -f 1-4 <<<"$how")" \
				"$(field auc <<<"$out")" "$(field leader_kills <<<"$out")" "$(field worker_kills <<<"$out")" "$(field retried_pushes <<<"$out")"
			at_least "leader kills" "$(field leader_kills <<<"$out")" 1
			at_least "worker kills" "$(field worker_kills <<<"$out")" 1
			at_least "AUC" "$(field auc <<<"$out")" "$bar"
			equal "batches and applied pushes" "$(field batches <<<"$out")" "$(field applied_pushes <<<"$out")"
			# A worker's restart may change bits, a server's may not.
			# shellcheck disable=SC2086
			quiet=$(launch $how --kill-leader-every 1s --kills 1,0 -- --epochs 5 --step-delay 2ms --sync bsp 2>/dev/null | field digest)
			equal "digest over $how and over the first" "$quiet" "${digest:=$quiet}"
		done
	done
	unset HCCLPS_CANN_LIB
}

# Every backend keeps the promises of a Comm, its Transfers are cancelled, cut and overtaken, and peers are killed in every phase.
conformance() {
	local sim huge=
	[ "$PROOF" = tenth ] || huge=1
	simulator
	HCCLPS_CANN_LIB=$sim HCCLPS_BIG=$huge tests 'TestConformance|TestHugeMessage|TestTransfer.*|TestCancelled.*|TestPeerKilled|TestPullPasses.*' ./p2p/backend
	tests 'TestKilled.*|TestProcesses|TestNothingLeft' ./p2p/shm
}

# A proxy cuts, stalls and corrupts bulk connections: all calls complete, none wrong.
bad_network() { tests TestBadNetwork ./p2p/link -calls "$bad_calls"; }

# NPUs of the simulator whose peers die, the budget of pairs, and what a binding may do wrong.
npu_deaths() {
	local sim worst
	simulator
	[ -n "$sim" ] || { not_run+=("npu_deaths (no C compiler for the simulator)"); return 0; }
	HCCLPS_CANN_LIB=$sim tests 'TestPeerDies.*|TestBudget|TestDeviceMemoryRunsOut|TestRule.*|TestNothingLeaks' ./p2p/hccl
	worst=$(grep -oE 'worst [0-9.]+(ms|s|µs)' "$work/tests" |
		awk '{ v = $2 + 0; if ($2 ~ /µs/) v /= 1000; else if ($2 !~ /ms/) v *= 1000; if (v > w) w = v } END { print w }')
	echo "longest push of a pair that lives, while another's peer died: $worst ms"
	at_least "time left of 2500 ms" "$(awk -v w="$worst" 'BEGIN { print w == "" ? "" : 2500 - w }')" 0
	tests 'TestMisuseIsCaught|TestDeadPeer|TestKilledProcessLeavesNothing' ./p2p/hccl/sim
}

# Mixed transfers with faults over every backend: what the process holds does not grow.
soak() {
	local sim
	simulator
	HCCLPS_CANN_LIB=$sim tests TestSoak ./p2p/backend -soak "$soak"
}
