package syscalls

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/tare-bench/tare/internal/kernel/bpf"
)

// maxProcesses is for how many processes counts are kept at the same time, at least. Processes that
// make no system calls are dropped first.
const maxProcesses = 16384

// spare is how many entries each CPU of a map like this can hold back unused.
const spare = 128

// newCounts makes the map from a process's number to its count on each CPU.
func newCounts() (*ebpf.Map, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	return ebpf.NewMap(&ebpf.MapSpec{
		Name: "tare_syscalls", Type: ebpf.LRUCPUHash, KeySize: 4, ValueSize: 8,
		MaxEntries: uint32(maxProcesses + spare*cpus),
	})
}

// A program is a program and the tracepoint at which the kernel runs it. Raw
// tracepoints need no tracefs.
type program struct {
	name, tracepoint string
	code             asm.Instructions
}

// programs count each system call. They forget a process when it ends, so that the next process with
// its number starts at none. They also forget it when it executes a program, because the calls that
// an engine's own program made before, in the same process, are not the new program's.
func programs(counts *ebpf.Map) []program {
	return []program{
		{"count", "sys_enter", count(counts.FD())},
		{"exec", "sched_process_exec", deleteProcess(counts.FD())},
		{"exit", "sched_process_exit", deleteProcess(counts.FD())},
	}
}

// Where the programs keep arguments for the kernel's functions, relative to the frame pointer.
const (
	process = -4  // 32 bits
	zero    = -16 // 64 bits
)

// count adds one to the current process's count. It looks the entry up again after making it,
// because another thread can have made it meanwhile. It adds atomically, because an interrupted
// program on this CPU can be about to add too.
func count(counts int) asm.Instructions {
	return bpf.Join(
		loadProcess(),
		bpf.Lookup(counts, process), asm.Instructions{asm.JNE.Imm(asm.R0, 0, "add")},
		insert(counts), bpf.Lookup(counts, process),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "end"),
			asm.Mov.Imm(asm.R1, 1).WithSymbol("add"),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		},
		bpf.End(),
	)
}

// deleteProcess drops the current process, unless only one of several threads ends.
func deleteProcess(counts int) asm.Instructions {
	return bpf.Join(
		loadProcess(),
		asm.Instructions{asm.JNE.Reg(asm.R6, asm.R7, "end")},
		bpf.OnMap(counts, process), asm.Instructions{asm.FnMapDeleteElem.Call()},
		bpf.End(),
	)
}

// loadProcess puts the numbers of thread and process into R6 and R7, and the process's number also into
// the key.
func loadProcess() asm.Instructions {
	return asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg32(asm.R6, asm.R0),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.RSh.Imm(asm.R7, 32),
		asm.StoreMem(asm.RFP, process, asm.R7, asm.Word),
	}
}

// insert begins to count the current process, unless another thread has.
func insert(counts int) asm.Instructions {
	return bpf.Join(
		asm.Instructions{asm.Mov.Imm(asm.R3, 0), asm.StoreMem(asm.RFP, zero, asm.R3, asm.DWord)},
		bpf.Update(counts, process, zero, int32(ebpf.UpdateNoExist)),
	)
}
