//go:build linux

#include "textflag.h"

// tare_start is the entry point of the ELF file (linker flag -E). The kernel
// enters here with argc at 0(RSP), as it would enter _rt0_arm64_linux. No
// vDSO: it would have to be found first.
TEXT tare_start(SB),NOSPLIT|NOFRAME|TOPFRAME,$0
	SUB	$16, RSP            // struct timespec
	MOVD	$1, R0              // CLOCK_MONOTONIC
	MOVD	RSP, R1
	MOVD	$113, R8            // clock_gettime
	SVC
	MOVD	0(RSP), R2
	MOVD	8(RSP), R3
	MOVD	$1000000000, R4
	MADD	R4, R3, R2, R2      // R2 = R2*R4 + R3
	MOVD	R2, ·first(SB)
	ADD	$16, RSP
	JMP	_rt0_arm64_linux(SB)
