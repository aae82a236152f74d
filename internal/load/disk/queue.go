package disk

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
)

// A queue is one I/O method.
type queue struct {
	name string
	// check returns why it cannot be used here.
	check func() error
	run   func(w work, t *tally) error
}

// threads is the number of threads of which each has requests of its own.
func (q queue) threads(p Plan) int {
	if q.name == Threads {
		return p.Depth
	}
	return 1
}

// queues lists every I/O method, the cheapest first.
func queues() []queue {
	return []queue{
		{Uring, canOpen(openUring), looped(openUring)},
		{Libaio, canOpen(openAIO), looped(openAIO)},
		{Threads, func() error { return nil }, threads},
	}
}

// choose returns the queue of a name, or under Auto the first that is allowed.
func choose(all []queue, name string) (queue, error) {
	var errs []error
	for _, q := range all {
		if name != Auto && name != q.name {
			continue
		}
		err := q.check()
		if err == nil {
			return q, nil
		}
		errs = append(errs, fmt.Errorf("io=%s cannot be used here: %w", q.name, err))
	}
	return queue{}, errors.Join(errs...)
}

// canOpen tries to open a ring.
func canOpen[R ring](open func(work) (R, error)) func() error {
	return func() error {
		r, err := open(work{fd: -1, slots: make([][]byte, 1)})
		if err != nil {
			return err
		}
		return r.close()
	}
}

// looped runs a ring at full depth, on one thread.
func looped[R ring](open func(work) (R, error)) func(work, *tally) error {
	return func(w work, t *tally) error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		r, err := open(w)
		if err != nil {
			return err
		}
		return errors.Join(keepFull(r, w, t), r.close())
	}
}

// syscallError is the error of a failed system call, with the probable reason.
func syscallError(call string, errno syscall.Errno) error {
	var why string
	switch errno {
	case syscall.EPERM:
		why = ": a seccomp profile or a system setting forbids it"
	case syscall.ENOSYS:
		why = ": this kernel has no such call, or a seccomp profile hides it"
	case syscall.EAGAIN:
		why = ": the system allows no more requests, see fs.aio-max-nr"
	case syscall.ENOMEM:
		why = ": the limit of locked memory is too low"
	}
	return fmt.Errorf("%s: %w%s", call, errno, why)
}
