#include "textflag.h"

// func axpy(a float32, x, y []float32)
TEXT ·axpy(SB), NOSPLIT, $0-56
	FMOVS a+0(FP), F0
	VDUP  V0.S[0], V0.S4        // a, four times
	MOVD  x_base+8(FP), R0
	MOVD  y_base+32(FP), R1
	MOVD  y_len+40(FP), R2
	LSR   $4, R2
	CBZ   R2, done

sixteen:
	VLD1.P 64(R0), [V1.S4, V2.S4, V3.S4, V4.S4]
	VLD1   (R1), [V5.S4, V6.S4, V7.S4, V8.S4]
	VFMLA  V0.S4, V1.S4, V5.S4
	VFMLA  V0.S4, V2.S4, V6.S4
	VFMLA  V0.S4, V3.S4, V7.S4
	VFMLA  V0.S4, V4.S4, V8.S4
	VST1.P [V5.S4, V6.S4, V7.S4, V8.S4], 64(R1)
	SUB    $1, R2
	CBNZ   R2, sixteen

done:
	RET
