#include "textflag.h"

// The assembler has no names for these two.
// d.4S = n.4S + m.4S
#define FADD4S(m, n, d) WORD $(0x4e20d400 | (m)<<16 | (n)<<5 | (d))
// d.4S = n.4S x m.4S
#define FMUL4S(m, n, d) WORD $(0x6e20dc00 | (m)<<16 | (n)<<5 | (d))

// func addNEON(dst, src *float32, n int)
// The first n &^ 3 elements, sixteen a turn, then four.
TEXT ·addNEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD n+16(FP), R2
	SUBS $16, R2
	BLT  few

loop:
	VLD1   (R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P 64(R1), [V4.S4, V5.S4, V6.S4, V7.S4]
	FADD4S(4, 0, 0)
	FADD4S(5, 1, 1)
	FADD4S(6, 2, 2)
	FADD4S(7, 3, 3)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS   $16, R2
	BGE    loop

few:
	ADDS $12, R2
	BLT  done

one:
	VLD1   (R0), [V0.S4]
	VLD1.P 16(R1), [V4.S4]
	FADD4S(4, 0, 0)
	VST1.P [V0.S4], 16(R0)
	SUBS   $4, R2
	BGE    one

done:
	RET

// func scaleNEON(dst *float32, k float32, n int)
TEXT ·scaleNEON(SB), NOSPLIT, $0-24
	MOVD  dst+0(FP), R0
	FMOVS k+8(FP), F16
	VDUP  V16.S[0], V16.S4
	MOVD  n+16(FP), R2
	SUBS  $16, R2
	BLT   few

loop:
	VLD1   (R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	FMUL4S(16, 0, 0)
	FMUL4S(16, 1, 1)
	FMUL4S(16, 2, 2)
	FMUL4S(16, 3, 3)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS   $16, R2
	BGE    loop

few:
	ADDS $12, R2
	BLT  done

one:
	VLD1   (R0), [V0.S4]
	FMUL4S(16, 0, 0)
	VST1.P [V0.S4], 16(R0)
	SUBS   $4, R2
	BGE    one

done:
	RET

// func axpyNEON(dst *float32, k float32, src *float32, n int)
TEXT ·axpyNEON(SB), NOSPLIT, $0-32
	MOVD  dst+0(FP), R0
	FMOVS k+8(FP), F16
	VDUP  V16.S[0], V16.S4
	MOVD  src+16(FP), R1
	MOVD  n+24(FP), R2
	SUBS  $16, R2
	BLT   few

loop:
	VLD1   (R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P 64(R1), [V4.S4, V5.S4, V6.S4, V7.S4]
	FMUL4S(16, 4, 4)
	FMUL4S(16, 5, 5)
	FMUL4S(16, 6, 6)
	FMUL4S(16, 7, 7)
	FADD4S(4, 0, 0)
	FADD4S(5, 1, 1)
	FADD4S(6, 2, 2)
	FADD4S(7, 3, 3)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS   $16, R2
	BGE    loop

few:
	ADDS $12, R2
	BLT  done

one:
	VLD1   (R0), [V0.S4]
	VLD1.P 16(R1), [V4.S4]
	FMUL4S(16, 4, 4)
	FADD4S(4, 0, 0)
	VST1.P [V0.S4], 16(R0)
	SUBS   $4, R2
	BGE    one

done:
	RET

// func dotNEON(lanes, a, b *float32, n int)
// The first n &^ 31 elements, into 32 partial sums that begin at zero.
TEXT ·dotNEON(SB), NOSPLIT, $0-32
	MOVD lanes+0(FP), R3
	MOVD a+8(FP), R0
	MOVD b+16(FP), R1
	MOVD n+24(FP), R2
	VEOR V16.B16, V16.B16, V16.B16
	VEOR V17.B16, V17.B16, V17.B16
	VEOR V18.B16, V18.B16, V18.B16
	VEOR V19.B16, V19.B16, V19.B16
	VEOR V20.B16, V20.B16, V20.B16
	VEOR V21.B16, V21.B16, V21.B16
	VEOR V22.B16, V22.B16, V22.B16
	VEOR V23.B16, V23.B16, V23.B16
	SUBS $32, R2
	BLT  done

loop:
	VLD1.P 64(R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P 64(R1), [V8.S4, V9.S4, V10.S4, V11.S4]
	VLD1.P 64(R0), [V4.S4, V5.S4, V6.S4, V7.S4]
	VLD1.P 64(R1), [V12.S4, V13.S4, V14.S4, V15.S4]
	FMUL4S(8, 0, 0)
	FMUL4S(9, 1, 1)
	FMUL4S(10, 2, 2)
	FMUL4S(11, 3, 3)
	FMUL4S(12, 4, 4)
	FMUL4S(13, 5, 5)
	FMUL4S(14, 6, 6)
	FMUL4S(15, 7, 7)
	FADD4S(0, 16, 16)
	FADD4S(1, 17, 17)
	FADD4S(2, 18, 18)
	FADD4S(3, 19, 19)
	FADD4S(4, 20, 20)
	FADD4S(5, 21, 21)
	FADD4S(6, 22, 22)
	FADD4S(7, 23, 23)
	SUBS   $32, R2
	BGE    loop

done:
	VST1.P [V16.S4, V17.S4, V18.S4, V19.S4], 64(R3)
	VST1   [V20.S4, V21.S4, V22.S4, V23.S4], (R3)
	RET
