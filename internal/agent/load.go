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

// burn keeps a number of threads busy for d, and returns the CPU time that the process
// used and the time that passed.
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
	// From the kernel and not from the runtime, whose heap grows by more than n.
	mem, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return result(stderr, "alloc", fmt.Errorf("mmap %d bytes: %w", n, err))
	}
	for i := 0; i < n; i += os.Getpagesize() {
		mem[i] = 1
	}
	code := printAndWait(term, "alloc", "ready\n", stdout, stderr)
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
	// The children get their death signal when the thread that made them ends.
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
	return printAndWait(term, "fork", fmt.Sprintf("forked %d\n", forked), stdout, stderr)
}

// room is the number of threads that the runtime may still need for signals and timers:
// it crashes if it cannot start one.
const room = 4

// makeRoom ends children to make room for threads of the runtime. It uses raw system
// calls: with others, the runtime could start a thread.
func makeRoom(children [room]uintptr) {
	for _, pid := range children {
		if pid != 0 {
			_, _, _ = syscall.RawSyscall(syscall.SYS_KILL, pid, uintptr(syscall.SIGKILL), 0)
			_, _, _ = syscall.RawSyscall6(syscall.SYS_WAIT4, pid, 0, 0, 0, 0, 0)
		}
	}
}

// forkSleeper makes a child that sleeps until the parent dies, and returns its PID; 0 if
// no further child is possible. The child does not exec: another runtime would add
// threads to the count, and could not start under the limit that this task is there to
// test. It is a single-threaded copy of a process with several threads, so it may only
// make raw system calls.
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
	// best effort: the end of the container kills it too
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
	if now, _, _ := syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0); now != parent {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0) // the parent has already died
	}
	for {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0) // returns only for a signal
	}
}
