package vec

import "golang.org/x/sys/cpu"

// canFoldCRC says whether there is a kernel.
func canFoldCRC() bool { return active == avx512 && cpu.X86.HasAVX512VPCLMULQDQ }

// foldCRC folds state onto the first of blocks blocks of 256 bytes from p on, that onto the second, and so on. It returns the remainder of them all.
//
//go:noescape
func foldCRC(state *[crcFold]byte, p *byte, blocks int) uint32
