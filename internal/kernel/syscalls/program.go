package syscalls

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// maxProcesses is of how many processes at once the counts are kept, at least.
// Those that make no system calls are dropped first.
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

// A hook is a program and the tracepoint at which the kernel runs it. Raw
// tracepoints need no tracefs.
type hook struct {
	name, tracepoint string
	code             asm.Instructions
}

// hooks count each system call, and forget a process when it ends, so that the
// next one of its number begins with none, and when it executes a program: what
// an engine's own program did before, in the same process, is not the program's.
func hooks(counts *ebpf.Map) []hook {
	return []hook{
		{"count", "sys_enter", count(counts.FD())},
		{"exec", "sched_process_exec", forget(counts.FD())},
		{"exit", "sched_process_exit", forget(counts.FD())},
	}
}

// Where the programs keep what they hand to the kernel's functions, below the
// frame pointer.
const (
	process = -4  // 32 bits
	zero    = -16 // 64 bits
)

// count adds one to the current process. Another thread can have added the
// process meanwhile, so that its entry is looked up again; and a program that
// was interrupted on this CPU can be about to add too, so that adding is atomic.
func count(counts int) asm.Instructions {
	return join(
		current(),
		lookup(counts), asm.Instructions{asm.JNE.Imm(asm.R0, 0, "add")},
		insert(counts), lookup(counts),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "end"),
			asm.Mov.Imm(asm.R1, 1).WithSymbol("add"),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		},
		end(),
	)
}

// forget drops the current process, but not for the end of one thread of several.
func forget(counts int) asm.Instructions {
	return join(
		current(),
		asm.Instructions{asm.JNE.Reg(asm.R6, asm.R7, "end")},
		onMap(counts), asm.Instructions{asm.FnMapDeleteElem.Call()},
		end(),
	)
}

// current puts the numbers of thread and process into R6 and R7, and the latter
// where keys are looked for.
func current() asm.Instructions {
	return asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg32(asm.R6, asm.R0),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.RSh.Imm(asm.R7, 32),
		asm.StoreMem(asm.RFP, process, asm.R7, asm.Word),
	}
}

// onMap makes the map and the key the arguments of a function.
func onMap(counts int) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, counts),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, process),
	}
}

func lookup(counts int) asm.Instructions {
	return append(onMap(counts), asm.FnMapLookupElem.Call())
}

func insert(counts int) asm.Instructions {
	return append(onMap(counts),
		asm.Mov.Imm(asm.R3, 0),
		asm.StoreMem(asm.RFP, zero, asm.R3, asm.DWord),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, zero),
		asm.Mov.Imm(asm.R4, int32(ebpf.UpdateNoExist)),
		asm.FnMapUpdateElem.Call(),
	)
}

func end() asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return()}
}

func join(parts ...asm.Instructions) (all asm.Instructions) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
