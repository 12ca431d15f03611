# shellcheck shell=bash
# Compressed gradients take the bytes that are said, and cost the AUC that is said.

# Gradients that travel compressed reach the AUC of those that do not, in the mean
# of paired seeds, and take the bytes that are said. compressed MODEL SET LOSS
# trains with every codec.
compressed() {
	local codec seed out bytes
	use "$1" "$2"
	rm -f "$work"/auc.*
	for codec in off onebit twobit int8 fp16 topk:0.01; do
		for ((seed = 1; seed <= seeds; seed++)); do
			out=$(train --embedded 1 --replicas 1 --seed "$seed" --compress "$codec" 2>"$work/err") || { cat "$work/err"; return 1; }
			field auc <<<"$out" >>"$work/auc.$codec"
		done
		bytes=$(field push_bytes <<<"$out")
		paste "$work/auc.off" "$work/auc.$codec" | awk -v what="$2 $1 $codec" -v b="$bytes" -v raw="$(field push_bytes_raw <<<"$out")" \
			'{ v += $2; d += $2 - $1 }
			END { printf "%-22s AUC mean %.4f, %+.4f, bytes %d of %d: 1 / %.1f\n", what, v / NR, d / NR, b, raw, raw / b; print d / NR >kept }' kept="$work/kept"
		at_least "$2 AUC of $codec, left of a loss of $3," "$(awk -v bar="$3" '{ print $1 + bar }' "$work/kept")" 0
	done
}
compress() {
	local out base
	out=$("$work/ps-worker" bench compress --codecs onebit,twobit,int8,fp16,topk:0.01 --sizes 1MiB --time 20ms --json)
	at_least "bytes of float32 by those of onebit" "$(head -n 1 <<<"$out" | field ratio)" 28
	sed -E 's/[{}"]//g' <<<"$out"
	tests TestBytesARow ./compress # bytes a sparse row, with its key
	needs_data compress adult-a9a && needs_data compress vehicle-coupon || return 0
	compressed lr a9a 0.003
	compressed deepfm coupon 0.01
	# Codes are resent as they were: leaders that are killed change no bit.
	base=$(launch -- --epochs 8 --compress onebit 2>/dev/null | field digest)
	out=$(launch --kill-leader-every 60steps --kills 2,0 -- --epochs 8 --compress onebit 2>"$work/err") || { cat "$work/err"; return 1; }
	echo "coupon deepfm onebit, $(field leader_kills <<<"$out") leaders killed: $(field retried_pushes <<<"$out") pushes sent again"
	equal "digest with leaders killed and without" "$(field digest <<<"$out")" "$base"
}

# 1-bit Adam of dense tensors on two workers reaches the AUC of adam, in the mean
# of paired seeds, after a warm-up of a fifth of the steps.
onebit_adam() {
	local how set rate rule freeze seed out loss
	needs_data onebit_adam adult-a9a && needs_data onebit_adam vehicle-coupon || return 0
	for how in "a9a 0.002 0.003 100" "coupon 0.005 0.01 40"; do
		read -r set rate loss freeze <<<"$how"
		use deepfm "$set"
		rm -f "$work"/auc.*
		for rule in adam "onebit_adam:freeze_step=$freeze"; do
			for ((seed = 1; seed <= seeds; seed++)); do
				out=$(timeout 300 "$work/ps-worker" launch -n 2 --servers 0 -- "$work/ps-worker" train --mode allreduce "${job[@]}" \
					--optimizer "$rule" --lr "$rate" --seed "$seed" 2>"$work/err") || { cat "$work/err"; return 1; }
				field auc <<<"$out" >>"$work/auc.${rule%:*}"
			done
		done
		out=$(paste "$work/auc.adam" "$work/auc.onebit_adam" | awk '{ d += $2 - $1 } END { print d / NR }')
		echo "$set deepfm, two workers: AUC of onebit_adam $(tail -n 1 "$work/auc.onebit_adam"), in the mean $out beside adam"
		at_least "$set AUC of onebit_adam, left of a loss of $loss," "$(awk -v d="$out" -v bar="$loss" 'BEGIN { print d + bar }')" 0
	done
}
