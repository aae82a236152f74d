// Package turn lets loads in several containers take turns of a few milliseconds.
//
// A process that takes turns keeps a page of shared memory at a descriptor that is known
// (FD). Its host opens that page through /proc, so that nothing is mounted and no engine is
// called, and both wait for each other with futexes:
//
//	process (Page, Clock)                host (Giver)
//	─────────────────────                ────────────
//	prepares, reaches a stage: Rest  ──► done = turn
//	waits for the next turn          ◄── Give(slice): turn = turn + 1
//	works until the slice is over,
//	threads rest one by one,
//	the last one says: Rest          ──► done = turn
//
// A process that finishes a stage within a slice goes on, with its turn, until it has
// prepared the next stage or has reported. So a process either works alone or waits.
//
// Nothing in the page is trusted: the host reads numbers from it, and bounds how long it waits.
package turn

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FD is the descriptor of the page in a process that takes turns.
const FD = 63

// Option is the word on the agent's command line that makes a process take turns.
const Option = "turns"

const (
	pageSize = 4096
	version  = 0x7461_7202 // "tar" and a number, which changes with the form of the page
	seals    = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

	// usualPatience is that of a Page.
	usualPatience = time.Hour
	// poll is how long the host waits at once, before it looks whether it should go on waiting.
	poll = 50 * time.Millisecond
)

// words is what host and process share. Each word is written by one side.
type words struct {
	version atomic.Uint32 // by the process, last when it makes the page
	turn    atomic.Uint32 // by the host: the number of the last turn; the process begins with turn 1
	done    atomic.Uint32 // by the process: the last turn that it has ended
	stage   atomic.Uint32 // by the process: how many stages it has reached
	reports atomic.Uint32 // by the process: how many loads have reported
	sliced  atomic.Uint32 // by the process: 1 while it ends its turn when the slice is over
	slice   atomic.Int64  // by the host: the length of the turn in nanoseconds
	worked  atomic.Int64  // by the process: the time in its slices in which it measured, in nanoseconds
}

// A Page is a process's end. A nil Page is that of a process that works alone: nothing waits.
type Page struct {
	words    *words
	fail     func(error)   // ends the process
	patience time.Duration // for how long it waits for its next turn: after that nobody gives any
}

// NewPage makes the page of this process, at FD. The process fails with fail if nobody gives it
// a turn any more.
func NewPage(fail func(error)) (*Page, error) {
	fd, err := unix.MemfdCreate("tare-turns", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("page for turns: %w", err)
	}
	err = errors.Join(unix.Ftruncate(fd, pageSize), unix.Dup3(fd, FD, unix.O_CLOEXEC), unix.Close(fd))
	if err == nil {
		_, err = unix.FcntlInt(FD, unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		return nil, fmt.Errorf("page for turns: %w", err)
	}
	w, err := mapPage(FD)
	if err != nil {
		return nil, err
	}
	w.turn.Store(1)
	w.version.Store(version)
	return &Page{words: w, fail: fail, patience: usualPatience}, nil
}

func mapPage(fd int) (*words, error) {
	memory, err := unix.Mmap(fd, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("page for turns: %w", err)
	}
	return (*words)(unsafe.Pointer(&memory[0])), nil
}

// reach waits for the turn in which the next stage begins.
func (p *Page) reach() {
	p.words.stage.Add(1)
	p.rest()
	p.words.sliced.Store(1)
}

// Reported tells the host that a load has reported, and ends the turn. Unless that was the last load,
// it waits for the turn in which the next one prepares itself, so that the host can read the
// counters in between.
func (p *Page) Reported(last bool) {
	if p == nil {
		return
	}
	p.words.reports.Add(1)
	if ended := p.end(); !last {
		p.await(ended)
	}
}

// end ends the turn.
func (p *Page) end() (ended uint32) {
	ended = p.words.turn.Load()
	p.words.sliced.Store(0)
	p.words.done.Store(ended)
	wake(&p.words.done)
	return ended
}

// rest ends the turn, and waits for the next one.
func (p *Page) rest() { p.await(p.end()) }

// await waits until the turn is another one than the one that has ended.
func (p *Page) await(ended uint32) {
	for p.words.turn.Load() == ended {
		if wait(&p.words.turn, ended, p.patience) == unix.ETIMEDOUT {
			p.fail(fmt.Errorf("no turn came within %v: is tare still there?", p.patience))
		}
	}
}

// wait waits until the word is woken, unless it has another value than the one given.
func wait(word *atomic.Uint32, value uint32, limit time.Duration) syscall.Errno {
	t := unix.NsecToTimespec(int64(limit))
	_, _, errno := syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(value),
		uintptr(unsafe.Pointer(&t)), 0, 0)
	return errno
}

func wake(word *atomic.Uint32) {
	const all = 1 << 30
	_, _, _ = syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, all, 0, 0, 0) // cannot fail
}

// See futex(2); not the private forms, since two processes share the word.
const (
	futexWait = 0
	futexWake = 1
)

// openOf opens the page of a process of this host without any effect on what else the
// descriptor may be.
func openOf(pid int) (int, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", pid, FD)
	found, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(found) }() // nothing was written
	var stat unix.Stat_t
	if err := unix.Fstat(found, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Size != pageSize {
		return -1, fmt.Errorf("%s is not a page for turns", path)
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", found), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	// A page that shrinks while it is mapped would kill tare.
	if got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || got&seals != seals {
		return -1, errors.Join(fmt.Errorf("%s is not a page for turns", path), unix.Close(fd))
	}
	return fd, nil
}
