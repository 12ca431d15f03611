#include "textflag.h"

// func prefetch(addrs *uintptr, n, lines int)
TEXT ·prefetch(SB), NOSPLIT, $0-24
	MOVD addrs+0(FP), R0
	MOVD n+8(FP), R1
	MOVD lines+16(FP), R2

window:
	MOVD.P 8(R0), R3
	MOVD   R2, R4

line:
	PRFM (R3), PLDL1KEEP
	ADD  $64, R3, R3
	SUBS $1, R4, R4
	BNE  line
	SUBS $1, R1, R1
	BNE  window
	RET
