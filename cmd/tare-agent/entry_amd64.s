//go:build linux

#include "textflag.h"

// tare_start is the entry point of the ELF file (linker flag -E). The kernel
// enters here with argc at 0(SP), as it would enter _rt0_amd64_linux. No vDSO:
// it would have to be found first.
TEXT tare_start(SB),NOSPLIT|NOFRAME|TOPFRAME,$0
	SUBQ	$16, SP             // struct timespec
	MOVL	$1, DI              // CLOCK_MONOTONIC
	MOVQ	SP, SI
	MOVL	$228, AX            // clock_gettime
	SYSCALL
	MOVQ	0(SP), AX
	IMULQ	$1000000000, AX
	ADDQ	8(SP), AX
	MOVQ	AX, ·first(SB)
	ADDQ	$16, SP
	JMP	_rt0_amd64_linux(SB)
