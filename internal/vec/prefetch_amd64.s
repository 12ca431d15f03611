#include "textflag.h"

// func prefetch(addrs *uintptr, n, lines int)
TEXT ·prefetch(SB), NOSPLIT, $0-24
	MOVQ addrs+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ lines+16(FP), DX

window:
	MOVQ (SI), AX
	MOVQ DX, BX

line:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	DECQ BX
	JNZ  line
	ADDQ $8, SI
	DECQ CX
	JNZ  window
	RET
