#include "textflag.h"

// x^(2048+32) and x^(2048-32) modulo the polynomial of CRC-32C, bits reversed, times x: what moves the lower and the upper half of 16 bytes on by 256 bytes.
DATA crcFactors<>+0(SB)/8, $0xdcb17aa4
DATA crcFactors<>+8(SB)/8, $0xb9e02b86
GLOBL crcFactors<>(SB), RODATA|NOPTR, $16

// func foldCRC(state *[crcFold]byte, p *byte, blocks int) uint32
TEXT ·foldCRC(SB), NOSPLIT|NOFRAME, $0-28
	MOVQ            state+0(FP), DI
	MOVQ            p+8(FP), SI
	MOVQ            blocks+16(FP), CX
	VBROADCASTI32X4 crcFactors<>(SB), Z8
	VMOVDQU64       (DI), Z0
	VMOVDQU64       64(DI), Z1
	VMOVDQU64       128(DI), Z2
	VMOVDQU64       192(DI), Z3

next:
	PREFETCHT0 1024(SI)
	PREFETCHT0 1088(SI)
	PREFETCHT0 1152(SI)
	PREFETCHT0 1216(SI)
	VPCLMULQDQ $0x00, Z8, Z0, Z4
	VPCLMULQDQ $0x00, Z8, Z1, Z5
	VPCLMULQDQ $0x00, Z8, Z2, Z6
	VPCLMULQDQ $0x00, Z8, Z3, Z7
	VPCLMULQDQ $0x11, Z8, Z0, Z0
	VPCLMULQDQ $0x11, Z8, Z1, Z1
	VPCLMULQDQ $0x11, Z8, Z2, Z2
	VPCLMULQDQ $0x11, Z8, Z3, Z3
	VPTERNLOGQ $0x96, (SI), Z4, Z0
	VPTERNLOGQ $0x96, 64(SI), Z5, Z1
	VPTERNLOGQ $0x96, 128(SI), Z6, Z2
	VPTERNLOGQ $0x96, 192(SI), Z7, Z3
	ADDQ       $256, SI
	DECQ       CX
	JNZ        next
	VMOVDQU64  Z0, (DI)
	VMOVDQU64  Z1, 64(DI)
	VMOVDQU64  Z2, 128(DI)
	VMOVDQU64  Z3, 192(DI)
	VZEROUPPER
	XORL       AX, AX
	MOVQ       $32, CX

rest:
	CRC32Q (DI), AX
	ADDQ   $8, DI
	DECQ   CX
	JNZ    rest
	MOVL   AX, ret+24(FP)
	RET
