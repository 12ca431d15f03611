//go:build amd64 || arm64

package vec

//go:noescape
func prefetch(addrs *uintptr, n, lines int)
