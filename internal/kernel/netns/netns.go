// Package netns calls functions in the network namespace of another process.
package netns

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// In calls do in the network namespace of a process: sockets that do opens are in that namespace
// and stay there. do must open them itself and start no goroutine. In returns do's error. If the
// process has ended, the error wraps fs.ErrNotExist; if this user lacks the right, it wraps
// fs.ErrPermission.
//
// In never uses this process's first thread, because /proc/self shows that thread's namespace as
// the process's.
func In(pid int, do func() error) error {
	name := fmt.Sprintf("/proc/%d/ns/net", pid)
	theirs, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = theirs.Close() }() // nothing is written to it
	ours, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return err
	}
	defer func() { _ = ours.Close() }() // as above
	if sameFile(ours, theirs) {
		return do() // needs no right
	}
	return Elsewhere(func() (back bool, err error) {
		if err := unix.Setns(int(theirs.Fd()), unix.CLONE_NEWNET); err != nil {
			return true, &os.PathError{Op: "enter", Path: name, Err: err}
		}
		err = do()
		left := unix.Setns(int(ours.Fd()), unix.CLONE_NEWNET)
		return left == nil, errors.Join(err, left)
	})
}

func sameFile(a, b *os.File) bool {
	x, err := a.Stat()
	y, too := b.Stat()
	return err == nil && too == nil && os.SameFile(x, y)
}

// Elsewhere calls do on a thread of its own that is not the first. The thread ends if do could not
// return it to its namespace.
func Elsewhere(do func() (back bool, err error)) error {
	ended := make(chan error, 1)
	var run func()
	run = func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			other := make(chan struct{})
			go func() { defer close(other); run() }()
			<-other // this goroutine keeps the first thread busy meanwhile
			return
		}
		back, err := do()
		if back {
			runtime.UnlockOSThread()
		}
		ended <- err
	}
	go run()
	return <-ended
}
