//go:build race

package collective_test

// watched says that the race detector is on.
const watched = true
