package agent

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/kernel/affinity"
)

func spin(args []string, stdout, stderr io.Writer) int {
	if len(args) < 1 || len(args) > 2 {
		return exitUsage
	}
	d, err := time.ParseDuration(args[0])
	if err != nil || d < 0 {
		return exitUsage
	}
	threads := 1
	if len(args) == 2 {
		if threads, err = strconv.Atoi(args[1]); err != nil || threads < 1 || threads > 1024 {
			return exitUsage
		}
	}
	cpu, wall := burn(d, threads)
	_, err = fmt.Fprintf(stdout, "cpu=%d wall=%d\n", cpu, wall)
	return result(stderr, "spin", err)
}

// burn keeps that many threads busy for d, and returns the CPU time that the
// process used and the time that passed.
func burn(d time.Duration, threads int) (cpu, wall time.Duration) {
	runtime.GOMAXPROCS(threads)
	before, began := affinity.CPUTime(), time.Now()
	var wg sync.WaitGroup
	for range threads {
		wg.Go(func() {
			for time.Since(began) < d {
			}
		})
	}
	wg.Wait()
	wall = time.Since(began)
	return affinity.CPUTime() - before, wall
}

func alloc(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		return exitUsage
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 {
		return exitUsage
	}
	term := terminated()
	// From the kernel and not from the runtime, whose heap grows by more than was asked for.
	mem, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return result(stderr, "alloc", fmt.Errorf("mmap %d bytes: %w", n, err))
	}
	for i := 0; i < n; i += os.Getpagesize() {
		mem[i] = 1
	}
	code := sayAndWait(term, "alloc", "ready\n", stdout, stderr)
	runtime.KeepAlive(mem)
	return code
}

func fork(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		return exitUsage
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 {
		return exitUsage
	}
	term := terminated()
	// The children's death signal comes when the thread that made them ends.
	runtime.LockOSThread()
	forked := 0
	var last [room]uintptr
	for ; forked < n; forked++ {
		pid := forkSleeper()
		if pid == 0 {
			makeRoom(last)
			break
		}
		last[forked%len(last)] = pid
	}
	return sayAndWait(term, "fork", fmt.Sprintf("forked %d\n", forked), stdout, stderr)
}

// room is how many threads the runtime may still want, to wait in while signals
// and timers go on: it crashes where it cannot have one.
const room = 4

// makeRoom ends children for the threads of the runtime. The runtime does not
// know of its system calls: one that it knows of could make it want a thread.
func makeRoom(children [room]uintptr) {
	for _, pid := range children {
		if pid != 0 {
			_, _, _ = syscall.RawSyscall(syscall.SYS_KILL, pid, uintptr(syscall.SIGKILL), 0)
			_, _, _ = syscall.RawSyscall6(syscall.SYS_WAIT4, pid, 0, 0, 0, 0, 0)
		}
	}
}

// forkSleeper makes a child that sleeps until the parent dies, and returns its
// number; 0 if there can be none more. The child does not exec: another runtime
// would add threads to what is counted, and could not start under the very limit
// that this task is there to test. It is a copy with one thread of a process that
// had several, so it may do nothing but raw system calls.
//
//go:norace
//go:nosplit
func forkSleeper() uintptr {
	parent, _, _ := syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return 0
	}
	if pid != 0 {
		return pid
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0) // best effort: the end of the container kills it too
	if now, _, _ := syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0); now != parent {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0) // it died before it could be told
	}
	for {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0) // returns only for a signal
	}
}
