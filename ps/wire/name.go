package wire

import "unicode/utf8"

// MaxName bounds the names of jobs, workers, tables, clusters and servers, in bytes.
const MaxName = 255

// ValidName says whether s can be a name: UTF-8 of 1 to MaxName bytes. What one part of a cluster takes as a name, all parts take.
func ValidName(s string) bool { return s != "" && len(s) <= MaxName && utf8.ValidString(s) }
