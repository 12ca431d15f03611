package world

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// MaxSize is the most ranks of a world.
const MaxSize = 1 << 16

const maxRanks = 512 // bytes of a list of ranks

// formatRanks writes ascending ranks as people do: "0-3,5". Two lists that differ have different texts, long ones by a sum of all.
func formatRanks(ranks []int) string {
	var b strings.Builder
	for i := 0; i < len(ranks); {
		last := i
		for last+1 < len(ranks) && ranks[last+1] == ranks[last]+1 {
			last++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(ranks[i]))
		if last > i {
			b.WriteString("-" + strconv.Itoa(ranks[last]))
		}
		i = last + 1
	}
	s := b.String()
	if len(s) <= maxRanks {
		return s
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	return fmt.Sprintf("%s... (%d ranks, %016x)", s[:maxRanks], len(ranks), h.Sum64())
}

// noun is "rank 3" or "ranks 3,5".
func noun(ranks []int) string {
	if len(ranks) == 1 {
		return "rank " + formatRanks(ranks)
	}
	return "ranks " + formatRanks(ranks)
}
