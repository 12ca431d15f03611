//go:build !amd64

package vec

func canFoldCRC() bool { return false }

func foldCRC(*[crcFold]byte, *byte, int) uint32 { return 0 }
