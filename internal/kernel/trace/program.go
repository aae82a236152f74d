package trace

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/bpf"
	"github.com/tare-bench/tare/internal/kernel/recording"
)

// An event as the programs write it: the offsets of its fields, and its size.
const (
	offTime      = 0  // 64 bits: CLOCK_MONOTONIC in ns
	offKind      = 8  // 32 bits: recording.Kind
	offNumber    = 12 // 32 bits: of a system call, or of the one in which the thread ends; 1 if preempted
	offThread    = 16 // 32 bits each
	offProcess   = 20
	offOther     = 24 // of a system call: the family of the socket that it is on
	offOtherProc = 28
	offStack     = 32 // 32 bits: a key of the map of stacks; negative = none
	offBegan     = 40 // 64 bits: of a system call
	eventSize    = 48

	nameSize  = 16             // of a thread's name, after the event
	fileSize  = 128            // of the name of a file that is executed
	stackSize = 8 * stackDepth // of a stack without a key, after all else
)

// Where the programs keep things on the stack, relative to the frame pointer.
const (
	key   = -4  // 32 bits: of a map
	value = -24 // 64 bits twice: for a map; key and value do not overlap
	above = -32 // where an event ends
)

// shortest is how long a system call takes at least to be an event, in ns. Shorter ones are most of all
// calls and little of the time.
const shortest = 5000

// offsets are where the fields of the kernel's structures are that the programs read.
type offsets struct {
	thread, process int16 // pid and tgid of struct task_struct
	file            int16 // filename of struct linux_binprm
	argument        int16 // the first one of a system call, in struct pt_regs
	// From a task to the table of the files that it has open: files of struct task_struct, fdt of struct files_struct, fd
	// of struct fdtable.
	toFiles [3]int16
	// From a file to the family of a socket: private_data of struct file, sk of struct socket, skc_family of struct
	// sock_common.
	toFamily [3]int16
}

// descriptors are those of what the programs share with tare.
type descriptors struct {
	followed int // process → 1: those of which there are events
	calls    int // thread → when its system call began, and which it is
	stacks   int
	events   int // the ring buffer
	lost     int // two numbers, at lostEvents and lostStacks
}

// The offsets of the numbers in the map of what was lost, and its size.
const (
	lostEvents = 0 // what one of the other maps had no room for
	lostStacks = 8 // stacks that the kernel did not give
	lostSize   = 16
)

// A coder writes the programs.
type coder struct {
	descriptors
	offsets
}

// programs returns the code for each tracepoint. Arguments are those of the kernel's TP_PROTO; all numbers
// of threads and processes are those of the first PID namespace.
func (c coder) programs() map[string]asm.Instructions {
	return map[string]asm.Instructions{
		"sched_process_fork": c.fork(),
		"sched_process_exec": c.exec(),
		"sched_process_exit": c.exit(),
		"sched_switch":       c.leave(),
		"sched_waking":       c.wake(),
		"sys_enter":          c.enter(),
		"sys_exit":           c.call(),
		"cgroup_mkdir":       c.group(),
		"cgroup_attach_task": c.group(),
	}
}

// fork: parent, child. A new process is followed if its parent is.
func (c coder) fork() asm.Instructions {
	at := int16(above - eventSize)
	return bpf.Join(
		zeroed(at, eventSize),
		argument(asm.R7, 0), argument(asm.R8, 1),
		c.task(asm.R7, at+offThread, at+offProcess), c.unlessFollowed("end"),
		c.task(asm.R8, at+offOther, at+offOtherProc),
		asm.Instructions{asm.Mov.Imm(asm.R1, 1), asm.StoreMem(asm.RFP, value, asm.R1, asm.DWord)},
		c.keep(c.followed, "kept"),
		named("kept", begin(at, recording.Fork)),
		c.emit(at, eventSize),
	)
}

// exec: task, the thread's ID before, program. A thread that becomes the first of its process is still in execve, and
// the entry of the ID that it now has is of a thread that has ended.
func (c coder) exec() asm.Instructions {
	at := int16(above - eventSize - fileSize)
	return bpf.Join(
		zeroed(at, eventSize),
		asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)},
		argument(asm.R7, 0), argument(asm.R8, 2),
		c.task(asm.R7, at+offThread, at+offProcess), c.unlessFollowed("end"),
		begin(at, recording.Exec),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord), asm.StoreMem(asm.RFP, at+offOther, asm.R1, asm.Word),
		},
		bpf.Lookup(c.calls, at+offOther),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "file"),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord), asm.StoreMem(asm.RFP, value, asm.R1, asm.DWord),
			asm.LoadMem(asm.R1, asm.R0, 8, asm.DWord), asm.StoreMem(asm.RFP, value+8, asm.R1, asm.DWord),
		},
		c.keep(c.calls, "file"), // the key is the process, and so its first thread
		asm.Instructions{asm.LoadMem(asm.R3, asm.R8, c.file, asm.DWord).WithSymbol("file")},
		bpf.Address(asm.R1, at+eventSize),
		asm.Instructions{asm.Mov.Imm(asm.R2, fileSize), asm.FnProbeReadKernelStr.Call()},
		c.emit(at, eventSize+fileSize),
	)
}

// exit: task. The calls exit and exit_group do not return, so the event has the one that the thread is in. A thread
// that is ended by another one is in any call, or in none.
func (c coder) exit() asm.Instructions {
	at := int16(above - eventSize)
	return bpf.Join(
		zeroed(at, eventSize),
		argument(asm.R7, 0),
		c.task(asm.R7, at+offThread, at+offProcess), c.unlessFollowed("end"),
		begin(at, recording.Exit),
		bpf.Lookup(c.calls, at+offThread),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "emit"),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord), asm.LoadMem(asm.R2, asm.R0, 8, asm.DWord),
			asm.JEq.Imm(asm.R2, unix.SYS_EXIT, "ends"), asm.JNE.Imm(asm.R2, unix.SYS_EXIT_GROUP, "emit"),
			asm.StoreMem(asm.RFP, at+offBegan, asm.R1, asm.DWord).WithSymbol("ends"),
			asm.StoreMem(asm.RFP, at+offNumber, asm.R2, asm.Word),
		},
		c.emit(at, eventSize),
	)
}

// leave: whether the thread was preempted, the thread that leaves the CPU, the one that comes. R9 is 1 if
// the first is followed: only then its stack is of use, and only if it was not preempted.
func (c coder) leave() asm.Instructions {
	at := int16(above - eventSize - stackSize)
	return bpf.Join(
		zeroed(at, eventSize),
		asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Imm(asm.R9, 0)},
		argument(asm.R7, 1), argument(asm.R8, 2),
		c.task(asm.R7, at+offThread, at+offProcess), c.unlessFollowed("next"),
		asm.Instructions{asm.Mov.Imm(asm.R9, 1)},
		named("next", c.task(asm.R8, at+offOther, at+offOtherProc)), bpf.Lookup(c.followed, key),
		asm.Instructions{asm.JNE.Imm(asm.R0, 0, "event"), asm.JEq.Imm(asm.R9, 0, "end")},
		named("event", begin(at, recording.Switch)),
		asm.Instructions{
			asm.StoreImm(asm.RFP, at+offStack, -1, asm.Word),
			asm.LoadMem(asm.R1, asm.R6, 0, asm.DWord), asm.StoreMem(asm.RFP, at+offNumber, asm.R1, asm.Word),
			asm.JNE.Imm(asm.R1, 0, "emit"), asm.JEq.Imm(asm.R9, 0, "emit"),
		},
		c.emitWithStack(at, eventSize),
	)
}

// wake: the thread that is woken. An interrupt wakes in the name of whatever it interrupted: the stack tells.
func (c coder) wake() asm.Instructions {
	at := int16(above - eventSize - nameSize - stackSize)
	return bpf.Join(
		zeroed(at, eventSize+nameSize),
		asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)},
		argument(asm.R7, 0),
		c.task(asm.R7, at+offOther, at+offOtherProc), c.unlessFollowed("end"),
		begin(at, recording.Wake), current(at+offThread, at+offProcess),
		bpf.Address(asm.R1, at+eventSize),
		asm.Instructions{asm.Mov.Imm(asm.R2, nameSize), asm.FnGetCurrentComm.Call()},
		c.emitWithStack(at, eventSize+nameSize),
	)
}

// enter: registers, number of the system call. It only notes when the call began.
func (c coder) enter() asm.Instructions {
	return bpf.Join(
		asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.FnGetCurrentPidTgid.Call(), asm.Mov.Reg(asm.R7, asm.R0),
			asm.RSh.Imm(asm.R0, 32), asm.StoreMem(asm.RFP, key, asm.R0, asm.Word),
		},
		c.unlessFollowed("end"),
		asm.Instructions{
			asm.StoreMem(asm.RFP, key, asm.R7, asm.Word),
			asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord), asm.StoreMem(asm.RFP, value+8, asm.R1, asm.DWord),
			asm.FnKtimeGetNs.Call(), asm.StoreMem(asm.RFP, value, asm.R0, asm.DWord),
		},
		c.keep(c.calls, "end"),
		bpf.End(),
	)
}

// call: registers, result. A thread that is not followed has no call.
func (c coder) call() asm.Instructions {
	at := int16(above - eventSize)
	return bpf.Join(
		asm.Instructions{
			asm.Mov.Reg(asm.R8, asm.R1),
			asm.FnGetCurrentPidTgid.Call(), asm.StoreMem(asm.RFP, key, asm.R0, asm.Word),
		},
		bpf.Lookup(c.calls, key),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "end"),
			asm.LoadMem(asm.R6, asm.R0, 0, asm.DWord), asm.LoadMem(asm.R7, asm.R0, 8, asm.DWord),
			asm.FnKtimeGetNs.Call(),
			asm.Mov.Reg(asm.R1, asm.R0), asm.Sub.Reg(asm.R1, asm.R6), asm.JLT.Imm(asm.R1, shortest, "end"),
		},
		zeroed(at, eventSize),
		begin(at, recording.Call), current(at+offThread, at+offProcess),
		asm.Instructions{
			asm.StoreMem(asm.RFP, at+offBegan, asm.R6, asm.DWord), asm.StoreMem(asm.RFP, at+offNumber, asm.R7, asm.Word),
		},
		c.family(at),
		c.emit(at, eventSize),
	)
}

// onSockets are the system calls whose first argument is a socket.
var onSockets = []int32{
	unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG,
	unix.SYS_BIND, unix.SYS_CONNECT, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_SHUTDOWN,
	unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
}

// family stores the family of the socket that a system call was on, or made. Its number is in R7, and the context of
// its end in R8, where the registers are those that it began with. What cannot be read is no family.
func (c coder) family(at int16) asm.Instructions {
	code := asm.Instructions{
		asm.LoadMem(asm.R8, asm.R8, 0, asm.DWord), asm.LoadMem(asm.R9, asm.R8, c.argument, asm.DWord),
		asm.JEq.Imm(asm.R7, unix.SYS_SOCKET, "family"), // of which it is the first argument
	}
	for _, number := range onSockets {
		code = append(code, asm.JEq.Imm(asm.R7, number, "socket"))
	}
	// follow reads what is at an offset of R8 into R8.
	follow := func(offset int16, size int32, as asm.Size) asm.Instructions {
		return bpf.Join(
			asm.Instructions{asm.Mov.Reg(asm.R3, asm.R8), asm.Add.Imm(asm.R3, int32(offset))},
			bpf.Address(asm.R1, value),
			asm.Instructions{
				asm.Mov.Imm(asm.R2, size), asm.FnProbeReadKernel.Call(), asm.JNE.Imm(asm.R0, 0, "emit"),
				asm.LoadMem(asm.R8, asm.RFP, value, as),
			},
		)
	}
	code = append(
		code, asm.Ja.Label("emit"),
		asm.FnGetCurrentTask.Call().WithSymbol("socket"), asm.Mov.Reg(asm.R8, asm.R0),
	)
	for _, offset := range c.toFiles {
		code = append(code, follow(offset, 8, asm.DWord)...)
	}
	// The argument has 32 bits; an entry of the table has 8 bytes.
	code = append(code, asm.LSh.Imm(asm.R9, 32), asm.RSh.Imm(asm.R9, 29), asm.Add.Reg(asm.R8, asm.R9))
	return bpf.Join(
		code, follow(0, 8, asm.DWord),
		follow(c.toFamily[0], 8, asm.DWord), follow(c.toFamily[1], 8, asm.DWord), follow(c.toFamily[2], 2, asm.Half),
		asm.Instructions{
			asm.Mov.Reg(asm.R9, asm.R8),
			asm.And.Imm(asm.R9, 1<<16-1).WithSymbol("family"), // whoever makes a socket can ask for anything
			asm.StoreMem(asm.RFP, at+offOther, asm.R9, asm.Word),
		},
	)
}

// group needs none of the arguments: who does it is the current thread.
func (c coder) group() asm.Instructions {
	at := int16(above - eventSize)
	return bpf.Join(
		zeroed(at, eventSize),
		current(at+offThread, key), c.unlessFollowed("end"),
		begin(at, recording.Group), current(at+offThread, at+offProcess),
		c.emit(at, eventSize),
	)
}

// named gives the first instruction a symbol, to which others jump.
func named(symbol string, code asm.Instructions) asm.Instructions {
	code[0] = code[0].WithSymbol(symbol)
	return code
}

// argument loads an argument of the tracepoint, whose context is in R1.
func argument(to asm.Register, number int16) asm.Instructions {
	return asm.Instructions{asm.LoadMem(to, asm.R1, 8*number, asm.DWord)}
}

// zeroed sets what lies on the stack to 0: the kernel takes nothing from it that was never written.
func zeroed(at, size int16) asm.Instructions {
	code := asm.Instructions{asm.Mov.Imm(asm.R0, 0)}
	for i := int16(0); i < size; i += 8 {
		code = append(code, asm.StoreMem(asm.RFP, at+i, asm.R0, asm.DWord))
	}
	return code
}

// task stores a task's thread and process, the latter also as key.
func (c coder) task(task asm.Register, thread, process int16) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, task, c.thread, asm.Word), asm.StoreMem(asm.RFP, thread, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, task, c.process, asm.Word), asm.StoreMem(asm.RFP, process, asm.R1, asm.Word),
		asm.StoreMem(asm.RFP, key, asm.R1, asm.Word),
	}
}

// unlessFollowed jumps if the process in key is not followed.
func (c coder) unlessFollowed(to string) asm.Instructions {
	return append(bpf.Lookup(c.followed, key), asm.JEq.Imm(asm.R0, 0, to))
}

// current stores the current thread and process.
func current(thread, process int16) asm.Instructions {
	return asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(), asm.StoreMem(asm.RFP, thread, asm.R0, asm.Word),
		asm.RSh.Imm(asm.R0, 32), asm.StoreMem(asm.RFP, process, asm.R0, asm.Word),
	}
}

// begin stores the time and the kind of an event.
func begin(at int16, k recording.Kind) asm.Instructions {
	return asm.Instructions{
		asm.FnKtimeGetNs.Call(), asm.StoreMem(asm.RFP, at+offTime, asm.R0, asm.DWord),
		asm.StoreImm(asm.RFP, at+offKind, int64(k), asm.Word),
	}
}

// emitWithStack stores the key of the current stack in an event, and ends the program as emit does. The context is in
// R6. The map keeps a stack where its hash says: one that finds another there gets no key, and follows the event. A
// stack that the kernel does not give at all is counted.
func (c coder) emitWithStack(at int16, size int32) asm.Instructions {
	return bpf.Join(
		asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.R6), asm.LoadMapPtr(asm.R2, c.stacks), asm.Mov.Imm(asm.R3, 0),
			asm.FnGetStackid.Call(), asm.StoreMem(asm.RFP, at+offStack, asm.R0, asm.Word),
			asm.JSGE.Imm(asm.R0, 0, "emit"),
			asm.Mov.Reg(asm.R1, asm.R6),
		},
		bpf.Address(asm.R2, at+int16(size)),
		asm.Instructions{
			asm.Mov.Imm(asm.R3, stackSize), asm.Mov.Imm(asm.R4, 0),
			asm.FnGetStack.Call(), asm.JSGT.Imm(asm.R0, 0, "whole"),
		},
		c.lose(lostStacks),
		asm.Instructions{asm.Ja.Label("emit")},
		named("whole", c.output(at, size+stackSize)),
		asm.Instructions{asm.Ja.Label("end")},
		c.emit(at, size),
	)
}

// emit puts an event into the buffer, and ends the program. Its symbol is "emit".
func (c coder) emit(at int16, size int32) asm.Instructions {
	return bpf.Join(named("emit", c.output(at, size)), bpf.End())
}

// output puts an event into the buffer, and counts it if there is no room. Nobody is woken: tare reads when the trial
// is over.
func (c coder) output(at int16, size int32) asm.Instructions {
	const wakeNobody = 1 // BPF_RB_NO_WAKEUP
	return bpf.Join(
		asm.Instructions{asm.LoadMapPtr(asm.R1, c.events)},
		bpf.Address(asm.R2, at),
		asm.Instructions{
			asm.Mov.Imm(asm.R3, size), asm.Mov.Imm(asm.R4, wakeNobody),
			asm.FnRingbufOutput.Call(),
			asm.JEq.Imm(asm.R0, 0, "end"),
		},
		c.lose(lostEvents),
	)
}

// keep puts key and value into a map, and counts it if there is no room: what is not kept has no events. What comes
// after it has the symbol next.
func (c coder) keep(fd int, next string) asm.Instructions {
	return bpf.Join(
		bpf.Update(fd, key, value, int32(ebpf.UpdateAny)),
		asm.Instructions{asm.JEq.Imm(asm.R0, 0, next)},
		c.lose(lostEvents),
	)
}

// lose counts one more that is lost: lostEvents or lostStacks.
func (c coder) lose(what uint32) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapValue(asm.R1, c.lost, what), asm.Mov.Imm(asm.R2, 1), asm.StoreXAdd(asm.R1, asm.R2, asm.DWord),
	}
}
