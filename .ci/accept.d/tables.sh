# shellcheck shell=bash
# Tables keep to their rows and to their memory.

# A table of ever new keys keeps to its rows: keys come in at their second sighting, and rows over the budget go. The model is no worse for it, and is
# the same on other numbers of shards, through the death of a server, and without servers.
rows() {
	needs_data rows vehicle-coupon || return 0
	local dir=$work/rows i pids seed out want got said addrs=unix:$work/rows1.sock,unix:$work/rows2.sock,unix:$work/rows3.sock
	local keep=(--admit count:2 --evict "rows:1024,lfu:1000") coupons=$HCCLPS_DATA/vehicle-coupon/in-vehicle-coupon-recommendation.csv
	mkdir -p "$dir"
	use deepfm coupon
	"$work/ps-worker" features init --format csv --data "$coupons" --label Y --out "$dir/features.yaml"
	echo '  - {name: trip, kind: cross, of: [couponType, time, destination, occupation, age]}' >>"$dir/features.yaml"
	job=(--model deepfm --json --format csv --data "$coupons" --split every=10 --features "$dir/features.yaml")
	for ((seed = 1; seed <= seeds; seed++)); do
		train --seed "$seed" 2>/dev/null | field auc >>"$dir/all"
		train --seed "$seed" "${keep[@]}" 2>/dev/null | field auc >>"$dir/kept"
	done
	echo "AUC with ${keep[*]}: median $(median <"$dir/kept"), with all rows $(median <"$dir/all")"
	at_least "AUC with few rows" "$(median <"$dir/kept")" "$(awk -v a="$(median <"$dir/all")" 'BEGIN { print a - 0.01 }')"

	want=$(mode ps 2 "${keep[@]}" 2>"$work/err" | field digest) || { cat "$work/err"; return 1; }
	got=$(mode allreduce 2 "${keep[@]}" --reduce-order rank 2>"$work/err" | field digest) || { cat "$work/err"; return 1; }
	equal "digest of two workers without servers, and with" "$got" "$want"

	want=$(train "${keep[@]}" 2>/dev/null | field digest)
	for i in 1 2 3; do
		"$work/ps-server" serve --dir "$dir/s$i" --listen "unix:$work/rows$i.sock" --servers "$addrs" --shards 8 --allow-same-host 2>"$dir/s$i.log" &
		pids[i]=$!
	done
	timeout 300 "$work/ps-worker" train --servers "$addrs" --job rows "${job[@]}" "${keep[@]}" --step-delay 3ms >"$dir/w.out" 2>&1 &
	pids[0]=$!
	for ((i = 0; i < 300; i++)); do
		sleep 0.1
		said=$("$work/ps-server" tables --servers "$addrs" --job rows --json 2>/dev/null) || continue
		said=$(tr '{' '\n' <<<"$said" | { grep '"trip"' || true; } | { grep -oE '"evicted":[0-9]+' || true; } | cut -d: -f2)
		[ "${said:-0}" -lt 2000 ] || break
	done
	kill -0 "${pids[0]}" || { echo "the job is over before a server is killed"; return 1; }
	kill -9 "${pids[2]}"
	wait "${pids[2]}" 2>/dev/null || true
	wait "${pids[0]}" || { cat "$dir/w.out"; return 1; }
	got=$(field digest <"$dir/w.out")
	"$work/ps-server" tables --servers "$addrs" --job rows | grep -E 'TABLE|trip|occupation'
	said=$("$work/ps-server" tables --servers "$addrs" --job rows --json | tr '{' '\n' | grep '"trip"')
	"$work/ps-server" row get trip 1 --servers "$addrs" | head -n 2
	out=$("$work/ps-server" row get deep.1.bias 0 --servers "$addrs" --json)
	kill "${pids[1]}" "${pids[3]}"
	wait "${pids[@]}" 2>/dev/null || true
	at_least "rows left of 1024" "$((1024 - $(grep -oE '"rows":[0-9]+' <<<"$said" | cut -d: -f2)))" 0
	at_least "rows evicted" "$(grep -oE '"evicted":[0-9]+' <<<"$said" | cut -d: -f2)" 2000
	equal "a row that is there" "$(grep -oE '"there":[a-z]+' <<<"$out")" '"there":true'
	equal "digest on eight shards, one server killed, and on four" "$got" "$want"
}

# cold_run NAME MEMORY trains a deep model on a server of its own, under PROOF=full
# in a cgroup where one can be made, its report into $work/cold.NAME and its greatest
# memory, of its own and of mapped files, in MiB, into own and files.
cold_run() {
	local dir=$work/cold-$1 addr=unix:$work/cold-$1.sock pid tester now group='' hard=$((($2 + $2 / 10) + (512 << 20))) flags=()
	[ "$2" = 0 ] || flags=(--memory "$2")
	if [ "$PROOF" = full ] && [ "$2" != 0 ] && group=/sys/fs/cgroup/memory/hcclps-$$ && mkdir "$group" 2>/dev/null; then
		echo "$hard" >"$group/memory.limit_in_bytes" # and pages of files that are written
	else
		group=''
	fi
	mkdir "$dir"
	(
		[ -z "$group" ] || echo $BASHPID >"$group/cgroup.procs"
		exec "$work/ps-server" serve --dir "$dir" --listen "$addr" --shards 4 --replicas 0 "${flags[@]}"
	) 2>"$dir.log" &
	pid=$!
	(cd worker/model && exec timeout 600 "$work/cold.test" -test.run '^TestColdServer$' -cold-server "$addr" -cold-report "$work/cold.$1" \
		-cold-trained "$work/cold.$1.trained" -cold-pid "$pid" \
		-cold-rows "${cold%%,*}" -cold-batch "$(cut -d, -f2 <<<"$cold")" -cold-steps "${cold##*,}") >"$work/out" 2>&1 &
	tester=$!
	own=0 files=0
	while kill -0 "$tester" 2>/dev/null; do
		now=$(awk '/^RssAnon/ { a = $2 } /^RssFile/ { f = $2 } END { print int(a / 1024), int(f / 1024) }' "/proc/$pid/status" 2>/dev/null || true)
		if [ -n "$now" ] && ((${now% *} > own)); then own=${now% *}; fi
		if [ -n "$now" ] && ((${now#* } > files)); then files=${now#* }; fi
		if [ -n "$group" ] && [ -e "$work/cold.$1.trained" ]; then
			echo -1 >"$group/memory.limit_in_bytes" # for the digest, which reads each row by itself
		fi
		sleep 0.1
	done
	wait "$tester" || { cat "$work/out" "$dir.log"; return 1; }
	kill "$pid"
	wait "$pid" || { cat "$dir.log"; return 1; }
	rm -r "$dir"
	if [ -n "$group" ]; then
		rmdir "$group"
		echo "cold: $1 ran in a cgroup of $((hard >> 20)) MiB"
	elif [ "$PROOF" = full ] && [ "$2" != 0 ]; then
		not_run+=("cold under a hard limit (no cgroup of memory can be made here)")
	fi
}

# A table of five times the memory for tables trains to the same parameters as one in memory, at 0.3 of its rate, without 10 % more than that memory.
cold() {
	local own files memory limit rate
	go test -c -o "$work/cold.test" ./worker/model
	cold_run whole 0
	memory=$(($(field table <"$work/cold.whole") / 5)) # of which servers leave an eighth for copies and a quarter, or 16 MiB, for pushes
	limit=$((memory * 8 / 5 > (memory + (16 << 20)) * 8 / 7 ? memory * 8 / 5 : (memory + (16 << 20)) * 8 / 7))
	echo "cold: all in memory, $own MiB and $files MiB of files: $(cat "$work/cold.whole")"
	cold_run part "$limit"
	echo "cold: --memory $((limit >> 20))MiB, $own MiB, $((100 * own / (limit >> 20))) % of it, and $files MiB of files: $(cat "$work/cold.part")"
	equal "digest of the parameters" "$(field digest <"$work/cold.part")" "$(field digest <"$work/cold.whole")"
	at_least "rows outside of memory" "$(field cold_rows <"$work/cold.part")" 1
	at_least "percent of memory left of 110" \
		"$(awk -v m="$(field most <"$work/cold.part")" -v l="$(field limit <"$work/cold.part")" 'BEGIN { print 110 - 100 * m / l }')" 0
	rate=$(awk -v p="$(field rate <"$work/cold.part")" -v w="$(field rate <"$work/cold.whole")" 'BEGIN { print p / w }')
	echo "cold: $rate of the rate of the one in memory"
	speed_at_least "rate, by that of the one in memory," "$rate" 0.3
}
