# shellcheck shell=bash
# Checkpoints are gone on from, survive crashes and full disks, and are fast.

# trained MODE WORKERS DIR TRAIN-ARG... trains by the flags of the last use, with
# checkpoints in DIR, none if it is -; with restored=1 it goes on from the newest.
trained() {
	local mode=$1 n=$2 dir=$3 servers=3 before=() after=()
	shift 3
	[ "$mode" != allreduce ] || servers=0
	if [ "$dir" != - ]; then
		after=(--checkpoint-every "$often")
		if [ "$mode" = allreduce ]; then after+=(--checkpoint-dir "$dir"); else before=(--checkpoint-dir "$dir"); fi
		if [ -n "${restored-}" ]; then
			if [ "$mode" = allreduce ]; then after+=(--resume); else before+=(--restore "$dir"); fi
		fi
	fi
	timeout 300 "$work/ps-worker" launch -n "$n" --servers "$servers" --job again "${before[@]}" -- \
		"$work/ps-worker" train --job again --mode "$mode" "${job[@]}" "${after[@]}" "$@"
}

# Training that goes on from a checkpoint has the bits of training that was not interrupted, in three modes, with what codecs held back; it goes on on
# another number of workers and in another mode; and numpy opens an export, and what it writes is trained on.
resume() {
	needs_data resume adult-a9a && needs_data resume vehicle-coupon || return 0
	local model bar often m codec want got out dir step from before after
	for model in lr deepfm; do
		case $model in
		lr) use lr a9a && bar=0.900 often=60 ;;
		deepfm) use deepfm coupon && bar=0.78 often=15 ;;
		esac
		for codec in off onebit; do
			case $PROOF-$model-$codec in tenth-lr-onebit | tenth-deepfm-off) continue ;; esac
			for m in ps hybrid allreduce; do
				dir=$work/again-$model-$codec-$m
				want=$(trained "$m" 2 - --epochs 4 --compress "$codec" 2>"$work/err" | field digest) || { cat "$work/err"; return 1; }
				trained "$m" 2 "$dir" --epochs 2 --step-delay 2ms --compress "$codec" >/dev/null 2>"$work/err" || { cat "$work/err"; return 1; }
				cp -r "$dir" "$dir.three"
				out=$(restored=1 trained "$m" 2 "$dir" --epochs 4 --compress "$codec" 2>"$work/err") || { cat "$work/err"; return 1; }
				step=$(field resumed_step <<<"$out") got=$(field digest <<<"$out")
				printf '%s, %s, %s: on from step %s of %s, digest %.8s, %.8s without a break\n' "$model" "$m" "$codec" "$step" "$(field steps <<<"$out")" "$got" "$want"
				at_least "steps before the checkpoint" "$step" 15
				equal "digest of $model, $m, $codec" "$got" "$want"
				case $PROOF-$codec-$m in *-onebit-* | tenth-off-hybrid) continue ;; esac
				out=$(restored=1 trained "$m" 3 "$dir.three" 2>"$work/err") || { cat "$work/err"; return 1; }
				echo "    on 3 workers in place of 2: from step $(field resumed_step <<<"$out") to $(field steps <<<"$out"), AUC $(field auc <<<"$out")"
				at_least "AUC of $model, $m, on 3 workers" "$(field auc <<<"$out")" "$bar"
			done
		done
		[ "$PROOF-$model" != tenth-deepfm ] || continue
		want=$(trained ps 2 - --epochs 4 2>"$work/err" | field digest) || { cat "$work/err"; return 1; }
		for from in ps allreduce; do
			dir=$work/other-$model-$from
			case $from in
			ps) m=allreduce before=() after=(--reduce-order rank) ;;
			allreduce) m=ps before=(--reduce-order rank) after=() ;;
			esac
			trained "$from" 2 "$dir" --epochs 2 --step-delay 2ms "${before[@]}" >/dev/null 2>"$work/err" || { cat "$work/err"; return 1; }
			got=$(restored=1 trained "$m" 2 "$dir" --epochs 4 "${after[@]}" 2>"$work/err" | field digest) || { cat "$work/err"; return 1; }
			printf '%s, from %s to %s: digest %.8s, %.8s without a break\n' "$model" "$from" "$m" "$got" "$want"
			equal "digest of $model, from $from to $m" "$got" "$want"
		done
	done
	[ "$PROOF" = full ] || return 0 # CI has run this with all tests
	/usr/bin/python3 -c 'import numpy' 2>/dev/null || { not_run+=("resume: numpy (no python3-numpy)"); return 0; }
	tests TestNumpyPageNeedsNumpy ./cmd/ps-worker
}

# Checkpoints of any shape (shards are a power of two) are restored on any other, and crashes by seed cost none that was committed.
checkpoints() {
	PROOF_SEEDS=$crashes tests 'TestRestoreOnAnyShape|TestCrashesWhileSaving|TestCrashesWhileRestoring' ./ps
}

# figure LINES NAME UNIT prints what a benchmark of lines says it is of that unit.
figure() {
	awk -v name="$2" -v unit="$3" '$1 ~ name { for (i = 3; i < NF; i += 2) if ($(i + 1) == unit) print $i }' <<<"$1"
}

# How fast a checkpoint is written, to disk beside a plain file and to memory, of four shards and of one; and what it costs those who train. All bars but
# one are for a quiet machine: CI demands half of the bytes, and by time on a processor.
checkpoint_rate() {
	local out place where='memory|shard' rate
	[ "$PROOF" = tenth ] || where='disk|memory|shard'
	out=$(timeout 900 go test -run '^$' -bench "^BenchmarkCheckpoint\$/^($where)\$/^full\$" -benchtime 1x -timeout 15m ./ps/pstest \
		-kept-rows "$kept") || { echo "$out"; return 1; }
	for place in ${where//|/ }; do
		rate=$(awk -v mb="$(figure "$out" "/$place/full" MB-written)" -v s="$(figure "$out" "/$place/full" cpu-s)" 'BEGIN { if (s > 0) print mb / 1.048576 / s }')
		echo "checkpoint, $place: $(figure "$out" "/$place/full" MiB/s) MiB/s, $rate a second of a processor, $(figure "$out" "/$place/full" of-plain) of a plain file"
		at_least "MiB of a checkpoint a second of a processor, $place," "$rate" 170
	done
	if [ "$PROOF" = full ]; then
		at_least "MiB/s of one shard into memory" "$(figure "$out" /shard/full MiB/s)" 341
		at_least "rate to disk, by that of a plain file," "$(figure "$out" /disk/full of-plain)" 0.6
	fi
	out=$(timeout 1800 go test -run '^$' -bench '^BenchmarkStepsBesideCheckpoints$' -benchtime 1x -timeout 30m ./ps/pstest \
		-beside-rows "${beside%,*}" -beside-time "${beside#*,}") || { echo "$out"; return 1; }
	grep -E '^Benchmark' <<<"$out" | cut -f 3-
	if [ "$PROOF" = full ]; then
		at_least "percent of samples left of a loss of 5" "$(figure "$out" Steps %-lost | awk '{ print 5 - $1 }')" 0
		at_least "2 without the ratio of the slowest steps" "$(figure "$out" Steps p99-ratio | awk '{ print 2 - $1 }')" 0
		at_least "MiB left of 256" "$(figure "$out" Steps MiB-extra | awk '{ print 256 - $1 }')" 0
	fi
}

# A cluster is killed with -9 in mid-checkpoint, servers and workers; it is restored on fewer servers from the folder of checkpoints
# alone, and training goes on to the bar, to the bit as if nothing had been.
dead_cluster() {
	needs_data dead_cluster adult-a9a || return 0
	local base dir=$work/dead ckpt=$work/dead/checkpoints i pids out auc under='' addrs=unix:$work/dead1.sock,unix:$work/dead2.sock,unix:$work/dead3.sock
	use lr a9a
	base=$(train --epochs 6 --world 1 2>/dev/null | field digest)
	mkdir -p "$dir"
	pids=()
	for i in 1 2 3; do
		"$work/ps-server" serve --dir "$dir/s$i" --listen "unix:$work/dead$i.sock" --servers "$addrs" --shards 4 --allow-same-host \
			--checkpoint-dir "$ckpt" --checkpoint-every 40steps --checkpoint-rate 3KiB 2>"$dir/s$i.log" &
		pids+=($!)
	done
	timeout 300 "$work/ps-worker" train --servers "$addrs" --job dead --worker w "${job[@]}" --epochs 6 --step-delay 10ms >"$dir/w.out" 2>&1 &
	pids+=($!)
	for ((i = 0; i < 600; i++)); do
		sleep 0.1
		[ "$(compgen -G "$ckpt/checkpoint-*.json" | wc -l)" -ge 2 ] || continue
		under=$(compgen -G "$ckpt/pack-*" | sed 's/.*pack-\([0-9]*\)-.*/\1/' | sort -u | tail -n 1)
		[ -n "$under" ] && [ ! -e "$ckpt/checkpoint-$under.json" ] && break
	done
	kill -9 "${pids[@]}"
	wait "${pids[@]}" 2>/dev/null || true
	if [ -e "$ckpt/checkpoint-$under.json" ]; then echo "no checkpoint was under way"; return 1; fi
	rm -rf "$dir"/s?
	"$work/ps-server" checkpoint list "$ckpt"
	"$work/ps-server" checkpoint verify "$ckpt"
	"$work/ps-server" serve --dir "$dir/alone" --listen "unix:$work/alone.sock" --shards 2 --checkpoint-dir "$ckpt" --restore "$ckpt" 2>"$dir/alone.log" &
	pids=($!)
	out=$(timeout 300 "$work/ps-worker" train --servers "unix:$work/alone.sock" --job dead --worker w "${job[@]}" --epochs 6 2>"$dir/again.err") || {
		cat "$dir/again.err" "$dir/alone.log"
		return 1
	}
	kill "${pids[@]}"
	wait "${pids[@]}"
	auc=$(field auc <<<"$out")
	echo "killed while checkpoint $under was written; gone on at step $(field resumed_step <<<"$out") of $(field steps <<<"$out"), AUC $auc"
	at_least "step it went on at" "$(field resumed_step <<<"$out")" 40
	at_least "a9a AUC" "$auc" 0.900
	equal "digest, and that of a run without a crash" "$(field digest <<<"$out")" "$base"
	flipped "$ckpt"
}

# flipped FOLDER changes single bytes of checkpoints: verify names the file each time.
flipped() {
	local file size at said n=0
	while read -r file; do
		case $file in *intent-*) continue ;; esac
		size=$(stat -c %s "$file")
		at=$(((RANDOM * 32768 + RANDOM) % size))
		cp "$file" "$work/whole"
		printf '%b' "\\x$(printf %02x $(($(od -An -tu1 -j "$at" -N 1 "$file") ^ 0x40)))" | dd of="$file" bs=1 seek="$at" conv=notrunc status=none
		if said=$("$work/ps-server" checkpoint verify "$1" 2>&1); then
			echo "byte $at of $file was changed, and verify says: $said"
			return 1
		fi
		grep -qF "$(basename "$file")" <<<"$said" || { echo "byte $at of $file was changed, and verify says: $said"; return 1; }
		cp "$work/whole" "$file"
		n=$((n + 1))
	done < <(find "$1" -type f -size +0 | shuf | head -n 20)
	"$work/ps-server" checkpoint verify "$1"
	echo "$n flipped bytes, each found and its file named"
}

# A full disk costs a checkpoint, not the training: those before stay whole, its space comes back, the model is the same to the bit. It
# wants a file system of its own, which an unprivileged user can mount where user namespaces are allowed.
full_disk() {
	needs_data full_disk adult-a9a || return 0
	unshare -rm true 2>/dev/null || { not_run+=("full_disk (no user namespaces)"); return 0; }
	local base out dir=$work/full
	use lr a9a
	base=$(train --epochs 6 --world 1 2>/dev/null | field digest)
	mkdir -p "$dir/kept"
	unshare -rm bash -s "$work" "$dir" "${job[@]}" >"$dir/out" 2>&1 <<'IN' || { tail -n 30 "$dir/out"; return 1; }
work=$1 dir=$2
shift 2
set -eu
mount -t tmpfs -o size=1m,nr_inodes=500 kept "$dir/kept"
"$work/ps-server" serve --dir "$dir/s1" --listen "unix:$dir/s1.sock" --shards 2 \
	--checkpoint-dir "$dir/kept" --checkpoint-every 20steps --checkpoint-keep 2 2>"$dir/log" &
server=$!
timeout 300 "$work/ps-worker" train --servers "unix:$dir/s1.sock" --job full --worker w "$@" --epochs 6 --step-delay 10ms >"$dir/w.out" 2>&1 &
worker=$!
for ((i = 0; i < 300; i++)); do
	sleep 0.1
	[ -e "$(compgen -G "$dir/kept/checkpoint-*" | head -n 1)" ] && break
done
dd if=/dev/zero of="$dir/kept/ballast" bs=4k 2>/dev/null || true # it is full now
before=$(ls "$dir/kept"/checkpoint-*)
for ((i = 0; i < 600; i++)); do
	grep -q 'checkpoint abandoned' "$dir/log" && break
	sleep 0.1
done
[ "$(ls "$dir/kept"/checkpoint-*)" = "$before" ] || { echo "a checkpoint was made on a full disk"; exit 1; }
"$work/ps-server" checkpoint verify "$dir/kept"
rm "$dir/kept/ballast"
wait "$worker" || { cat "$dir/w.out"; exit 1; }
"$work/ps-server" checkpoint list "$dir/kept"
"$work/ps-server" checkpoint verify "$dir/kept"
kill "$server"
wait "$server"
IN
	out=$(tail -n 1 "$dir/w.out")
	cat "$dir/out"
	grep -m 1 'checkpoint abandoned.*no space' "$dir/log" | grep -oE 'checkpoint=.*' | cut -c 1-200
	at_least "checkpoints abandoned" "$(grep -c 'checkpoint abandoned' "$dir/log")" 1
	at_least "the last step that was kept" "$(tail -n 2 "$dir/out" | awk 'NR == 1 { print $3 }')" 400
	equal "digest, and that of a run without checkpoints" "$(field digest <<<"$out")" "$base"
}
