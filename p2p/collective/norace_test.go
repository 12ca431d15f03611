//go:build !race

package collective_test

const watched = false
