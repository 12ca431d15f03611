package optim

import "strings"

// Nearest is the entry of valid with the smallest edit distance to name, the first of equals, without regard to case; "" if valid is empty.
func Nearest(name string, valid []string) string {
	best, least := "", -1
	for _, v := range valid {
		if d := distance(strings.ToLower(name), strings.ToLower(v)); least < 0 || d < least {
			best, least = v, d
		}
	}
	return best
}

// Near is Nearest if at most half of the letters differ, else "": what may have been meant.
func Near(name string, valid []string) string {
	best := Nearest(name, valid)
	if 2*distance(strings.ToLower(name), strings.ToLower(best)) > max(len(name), len(best)) {
		return ""
	}
	return best
}

// Close is Nearest if no more than two letters differ, or a third of those of name, else "": what a flag or a command was meant to be.
func Close(name string, valid []string) string {
	best := Nearest(name, valid)
	if distance(strings.ToLower(name), strings.ToLower(best)) > max(2, len(name)/3) {
		return ""
	}
	return best
}

// distance counts the bytes to insert, delete or replace to turn a into b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
