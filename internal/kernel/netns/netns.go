// Package netns does something in the network namespace of another process.
package netns

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// In calls do in the network namespace of a process: the sockets that do opens
// are there, and stay there. Do opens them itself and starts no goroutine. The
// errors are do's, those of a process that is gone, which wrap fs.ErrNotExist,
// and those of an ordinary user, which wrap fs.ErrPermission.
//
// It is never done on this process's first thread, whose namespace /proc/self
// shows as that of the process.
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
	if same(ours, theirs) {
		return do() // which takes no right
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

func same(a, b *os.File) bool {
	x, err := a.Stat()
	y, too := b.Stat()
	return err == nil && too == nil && os.SameFile(x, y)
}

// Elsewhere calls do on a thread of its own that is not the first. One that do
// has not brought back ends.
func Elsewhere(do func() (back bool, err error)) error {
	ended := make(chan error, 1)
	var run func()
	run = func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			other := make(chan struct{})
			go func() { defer close(other); run() }()
			<-other // while this one holds the first thread
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
