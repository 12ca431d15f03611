#!/usr/bin/env bash
# shellcheck disable=SC2086 # lists of sizes are words
# Transport and collectives of this project beside Open MPI, MPICH, torch gloo and iperf3, in the same minutes: every round runs each of them once, the
# median over the rounds counts, and the ratio says what a machine's noise does not change. `make bench-peers` runs it.
#
#   ROUNDS=5 TIME=0.4 SIZES="8 1024 ..." bench/peers.sh [shm] [tcp] [busy] [collectives]
#
# shm   one-way latency and streams between two processes over shared memory
# tcp   streams over TCP on loopback with 1 and 2 connections, with and without CRC, and TLS
# busy  one-way latency of two pairs at once on two cores, where waiting must yield
# collectives  OPERATIONS between RANKS processes, of COLL_SIZES, over shared memory and over TCP (allreduce)
set -euo pipefail
cd "$(dirname "$0")/.."

: "${ROUNDS:=5}" "${TIME:=0.4}"
: "${SIZES:=8 64 1024 16384 65536 262144 1048576 4194304 16777216 67108864}"
: "${TCP_SIZES:=65536 262144 1048576 4194304 16777216}"
# More ranks than cores wait by yielding in Open MPI; MPICH has no such switch and is left out there.
: "${OPERATIONS:=allreduce reducescatter allgather broadcast alltoall}" "${RANKS:=2 4 8}"
: "${COLL_SIZES:=8 1024 65536 1048576 16777216 67108864}"
parts=${*:-shm tcp busy collectives}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
results=$work/results # lines: part, who, size, us, GB/s, CPU s/GB, wrong
: >"$results"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

have() { command -v "$1" >/dev/null; }

absent=()
build() {
	go build -o "$work/ps-worker" ./cmd/ps-worker
	local mpi
	for mpi in openmpi mpich; do
		if have "mpicc.$mpi" && have "mpirun.$mpi"; then
			"mpicc.$mpi" -O3 -march=native -o "$work/pair.$mpi" bench/peers/pair.c
			"mpicc.$mpi" -O3 -march=native -o "$work/coll.$mpi" bench/peers/coll.c
		else
			absent+=("$mpi (apt-get install $([ $mpi = mpich ] && echo mpich libmpich-dev || echo openmpi-bin libopenmpi-dev))")
		fi
	done
	gloo=
	for python in python3 /usr/bin/python3; do
		if [ -z "$gloo" ] && have $python && $python -c 'import torch' 2>/dev/null; then gloo=$python; fi
	done
	[ -n "$gloo" ] || absent+=("torch (apt-get install python3-torch)")
	have iperf3 || absent+=("iperf3 (apt-get install iperf3)")
	have taskset || absent+=("taskset (apt-get install util-linux)")
}

# note PART WHO puts lines "size us rate cpu wrong" into the results.
note() { sed "s|^|$1 $2 |" >>"$results"; }

# ours TRANSPORT [FLAG...] -- SIZE...
ours() {
	local transport=$1 flags=()
	shift
	while [ "$1" != -- ]; do flags+=("$1") && shift; done
	shift
	"$work/ps-worker" bench p2p --json --rounds 3 --time "${TIME}s" --transport "$transport" "${flags[@]}" --sizes "$(IFS=,; echo "$*")" |
		sed -E 's/.*"size":([0-9]+).*"us":([^,]+),.*"algbw":([^,]+),.*"cpu_s_gb":([^,]+),.*"wrong":([0-9]+).*/\1 \2 \3 \4 \5/'
}

# mpi WHICH RANKS [FLAG...] -- SIZE...
mpi() {
	local which=$1 ranks=$2 flags=()
	shift 2
	while [ "$1" != -- ]; do flags+=("$1") && shift; done
	shift
	"mpirun.$which" "${flags[@]}" -n "$ranks" "$work/pair.$which" 3 "$TIME" "$@"
}

# iperf STREAMS SIZE: the receiver's rate, and the CPU time of both sides. It writes at most 1 MiB at once.
iperf() {
	local port=$((20000 + RANDOM % 10000)) block=$(($2 < 1048576 ? $2 : 1048576)) server out
	iperf3 -s -1 -p "$port" &>/dev/null &
	server=$!
	for _ in $(seq 100); do
		if grep -qi ":$(printf %04x "$port") .* 0A " /proc/net/tcp /proc/net/tcp6; then break; fi
		sleep 0.05
	done
	if ! out=$(timeout 20 iperf3 -c 127.0.0.1 -C cubic -p "$port" -P "$1" -l "$block" -t 1 -J); then
		kill "$server"
		printf 'iperf3 failed: %.500s\n' "$out" >&2
		return 1
	fi
	wait "$server"
	awk -v size="$2" '
		/"sum_received"/ { received = 1 }
		received && /"seconds"/ && !seconds { seconds = value($0) }
		received && /"bits_per_second"/ && !rate { rate = value($0) / 8e9 }
		/"host_total"/ { cpu += value($0) }
		/"remote_total"/ { cpu += value($0) }
		function value(line) { sub(/.*: */, "", line); sub(/,.*/, "", line); return line + 0 }
		END { printf "%d 0 %.6f %.4f 0\n", size, rate, cpu / 100 / rate }' <<<"$out"
}

round_shm() {
	ours shm -- $SIZES | note shm ours
	[ ! -x "$work/pair.openmpi" ] || mpi openmpi 2 --bind-to none --mca btl self,vader -- $SIZES | note shm openmpi
	[ ! -x "$work/pair.mpich" ] || mpi mpich 2 -- $SIZES | note shm mpich
}

round_tcp() {
	local streams size
	for streams in 1 2; do
		ours tcp --stripes $streams -- $TCP_SIZES | note tcp "tcp-x$streams"
		ours tcp --stripes $streams --checksum -- $TCP_SIZES | note tcp "tcp+crc-x$streams"
		ours tls --stripes $streams -- $TCP_SIZES | note tcp "tls-x$streams"
		if have iperf3; then
			for size in $TCP_SIZES; do iperf $streams "$size" | note tcp "iperf3-x$streams"; done
		fi
	done
	[ ! -x "$work/pair.openmpi" ] || mpi openmpi 2 --bind-to none --mca btl self,tcp --mca btl_tcp_if_include lo -- $TCP_SIZES | note tcp openmpi
}

# Two pairs on two cores. The slower pair counts, as it does for MPI.
round_busy() {
	have taskset || return 0
	local i
	for i in 1 2; do taskset -c 0,1 "$0" one-busy-pair "$work" "$TIME" >"$work/busy.$i" & done
	wait
	sort -k2 -g -r "$work/busy.1" "$work/busy.2" | head -n 1 | note busy ours
	[ ! -x "$work/pair.openmpi" ] ||
		taskset -c 0,1 mpirun.openmpi --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca btl self,vader -n 4 "$work/pair.openmpi" 3 "$TIME" 8 | note busy openmpi
}

# collective OPERATION RANKS [FLAG...]: ours
collective() {
	local op=$1 ranks=$2
	shift 2
	"$work/ps-worker" bench "$op" --ranks "$ranks" --json --rounds 3 --time "${TIME}s" "$@" --sizes "$(IFS=' '; set -- $COLL_SIZES; IFS=,; echo "$*")" |
		sed -E 's/.*"size":([0-9]+).*"us":([^,]+),.*"algbw":([^,]+),.*"wrong":([0-9]+).*/\1 \2 \3 0 \4/'
}

round_collectives() {
	local op ranks name few yield
	for ranks in $RANKS; do
		few=$((ranks <= $(nproc))) yield=()
		((few)) || yield=(--oversubscribe --mca mpi_yield_when_idle 1)
		for op in $OPERATIONS; do
			name=$op-$ranks
			collective "$op" "$ranks" | note "$name" ours
			collective "$op" "$ranks" --alloc | note "$name" alloc
			[ ! -x "$work/coll.openmpi" ] || mpirun.openmpi --bind-to none "${yield[@]}" --mca btl self,vader -n "$ranks" "$work/coll.openmpi" "$op" 3 "$TIME" $COLL_SIZES | note "$name" openmpi
			if [ -x "$work/coll.mpich" ] && ((few)); then mpirun.mpich -n "$ranks" "$work/coll.mpich" "$op" 3 "$TIME" $COLL_SIZES | note "$name" mpich; fi
			if [ "$op" = allreduce ]; then
				collective "$op" "$ranks" --transport tcp | note "$name" tcp
				[ ! -x "$work/coll.openmpi" ] || mpirun.openmpi --bind-to none "${yield[@]}" --mca btl self,tcp --mca btl_tcp_if_include lo -n "$ranks" "$work/coll.openmpi" "$op" 3 "$TIME" $COLL_SIZES | note "$name" openmpi-tcp
				[ -z "$gloo" ] || "$gloo" bench/peers/gloo.py "$ranks" "$op" 3 "$TIME" $COLL_SIZES | note "$name" gloo
			fi
		done
	done
}

# table PART COLUMN TITLE OURS... -- PEER...: medians over the rounds, and of each peer how much better ours[0] is.
table() {
	local part=$1 column=$2 title=$3
	shift 3
	printf '\n%s\n' "$title"
	awk -v part="$part" -v column="$column" -v names="$*" '
		function median(list, v, n, i, j, t) {
			n = split(list, v, " ")
			for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] + 0 < v[j - 1] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
			return v[int(n / 2) + 1] + 0
		}
		$1 == part {
			values[$2, $3] = values[$2, $3] " " $column
			bad[$2] += $7
			if (!seen[$3]++) sizes[++count] = $3
		}
		END {
			n = split(names, name, " ")
			printf "%12s", "bytes"
			for (i = 1; i <= n; i++) if (name[i] == "--") peers = i; else printf " %14s", name[i]
			for (i = peers + 1; i <= n; i++) printf " %16s", "ours/" name[i]
			printf "\n"
			for (k = 1; k <= count; k++) {
				printf "%12d", sizes[k]
				for (i = 1; i <= n; i++) if (name[i] != "--") {
					v = values[name[i], sizes[k]]
					if (v == "") printf " %14s", "-"; else printf " %14.4g", median(v)
				}
				for (i = peers + 1; i <= n; i++) {
					a = values[name[1], sizes[k]]; b = values[name[i], sizes[k]]
					if (a == "" || b == "" || median(b) == 0) printf " %16s", "-"; else printf " %16.2f", median(a) / median(b)
				}
				printf "\n"
			}
			for (who in bad) if (bad[who] > 0) printf "WRONG: %d messages of %s had wrong contents\n", bad[who], who
		}' "$results"
}

# bar WHAT PART WHO LEAST MOST FACTOR PEER...: says whether our time is at most FACTOR of the best of these peers at every size from LEAST to MOST, and where it is
# furthest from that. A PEER that is a number is a time in us.
bar() {
	local what=$1 part=$2 who=$3 least=$4 most=$5 factor=$6
	shift 6
	awk -v what="$what" -v part="$part" -v who="$who" -v least="$least" -v most="$most" -v factor="$factor" -v peers="$*" '
		function median(list, v, n, i, j, t) {
			n = split(list, v, " ")
			for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] + 0 < v[j - 1] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
			return v[int(n / 2) + 1] + 0
		}
		$1 == part && $3 >= least && $3 <= most { values[$2, $3] = values[$2, $3] " " $4; seen[$3] }
		END {
			n = split(peers, peer, " ")
			for (size in seen) {
				if (values[who, size] == "") continue
				best = 0
				for (i = 1; i <= n; i++) {
					t = peer[i] ~ /^[0-9.]+$/ ? peer[i] : median(values[peer[i], size])
					if (t > 0 && (!best || t < best)) best = t
				}
				if (!best) continue
				x = median(values[who, size]) / best
				cells++
				if (x <= factor) good++
				if (x > worst) { worst = x; at = size }
			}
			if (!cells) { printf "  not run  %s\n", what; exit }
			printf "  %s  %s: %d of %d sizes, worst %.2f at %d B, bar %.2f\n", good == cells ? "holds  " : "does not", what, good, cells, worst, at, factor
		}' "$results"
}

# bars: what collectives have to reach; times of ours over those of the best peer.
bars() {
	local ranks op most=$((1 << 30)) mib=$((1 << 20))
	printf '\nbars\n'
	for ranks in $RANKS; do
		bar "allreduce, $ranks ranks, from 1 MiB ahead of all" "allreduce-$ranks" ours $mib $most 1 openmpi mpich gloo
		bar "allreduce, $ranks ranks, from 16 MiB by 1.5" "allreduce-$ranks" ours $((16 * mib)) $most 0.667 openmpi mpich gloo
		bar "allreduce, $ranks ranks, from 16 MiB by 2.5 with buffers of the group" "allreduce-$ranks" alloc $((16 * mib)) $most 0.4 openmpi mpich gloo
		if ((ranks == 2)); then
			bar "allreduce, 2 ranks, 8 B in 1 us" allreduce-2 ours 8 8 1 1
			bar "allreduce, 2 ranks, 1 to 64 KiB within 2 of Open MPI" allreduce-2 ours 1024 65536 2 openmpi
		else
			bar "allreduce, $ranks ranks, as fast as Open MPI that yields" "allreduce-$ranks" ours 0 $most 1 openmpi
		fi
		bar "allreduce, $ranks ranks, tcp, ahead of gloo" "allreduce-$ranks" tcp 0 $most 1 gloo
		bar "allreduce, $ranks ranks, tcp, from 1 MiB ahead of Open MPI" "allreduce-$ranks" tcp $mib $most 1 openmpi-tcp
		for op in $OPERATIONS; do
			if [ "$op" != allreduce ] && ((ranks <= 4)); then
				bar "$op, $ranks ranks, 1 MiB ahead of Open MPI" "$op-$ranks" ours $mib $mib 1 openmpi
				bar "$op, $ranks ranks, 64 MiB ahead of Open MPI" "$op-$ranks" ours $((64 * mib)) $((64 * mib)) 1 openmpi
			fi
		done
	done
}

report() {
	case $1 in
	shm)
		table shm 4 "shared memory, one way, us (smaller is better)" ours -- openmpi mpich
		table shm 5 "shared memory, stream, GB/s (larger is better)" ours -- openmpi mpich
		table shm 6 "shared memory, stream, CPU seconds a GB of both processes" ours -- openmpi mpich
		;;
	tcp)
		table tcp 5 "TCP on loopback, 1 connection, stream, GB/s" tcp-x1 tcp+crc-x1 tls-x1 -- iperf3-x1 openmpi
		table tcp 5 "TCP on loopback, 2 connections, stream, GB/s" tcp-x2 tcp+crc-x2 tls-x2 -- iperf3-x2 openmpi
		table tcp 6 "TCP on loopback, 1 connection, CPU seconds a GB of both processes" tcp-x1 tcp+crc-x1 tls-x1 -- iperf3-x1 openmpi
		table tcp 6 "TCP on loopback, 2 connections, CPU seconds a GB of both processes" tcp-x2 tcp+crc-x2 tls-x2 -- iperf3-x2 openmpi
		;;
	collectives)
		local op ranks
		for op in $OPERATIONS; do
			for ranks in $RANKS; do
				table "$op-$ranks" 4 "$op, float32, $ranks ranks, shared memory, us" ours -- openmpi mpich gloo
				table "$op-$ranks" 4 "$op, float32, $ranks ranks, shared memory, buffers of the group, us" alloc -- openmpi mpich gloo
				[ "$op" != allreduce ] || table "$op-$ranks" 4 "$op, float32, $ranks ranks, TCP on loopback, us" tcp -- openmpi-tcp gloo
			done
		done
		bars
		;;
	busy) table busy 4 "shared memory, two pairs on two cores, one way, us, the slower pair" ours -- openmpi ;;
	esac
}

if [ "${1:-}" = one-busy-pair ]; then
	trap - EXIT
	rm -rf "$work"
	work=$2 TIME=$3
	ours shm -- 8
	exit
fi

build
printf 'load %s; %d rounds of %s s a size, medians; %d cores\n' "$(cut -d' ' -f1 /proc/loadavg)" "$ROUNDS" "$TIME" "$(nproc)"
for ((r = 1; r <= ROUNDS; r++)); do
	for part in $parts; do "round_$part"; done
	printf 'round %d of %d, load %s\n' "$r" "$ROUNDS" "$(cut -d' ' -f1 /proc/loadavg)" >&2
done
for part in $parts; do report "$part"; done
if ((${#absent[@]} > 0)); then
	printf '\nnot installed, so not compared:\n'
	printf '  %s\n' "${absent[@]}"
fi
