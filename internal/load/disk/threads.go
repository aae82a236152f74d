package disk

import (
	"errors"
	"runtime"
	"sync"
	"syscall"
	"unsafe"
)

// threads runs the requests on as many threads as there are slots; each waits for its own
// request.
func threads(w work, t *tally) error {
	var workers sync.WaitGroup
	errs := make([]error, len(w.slots))
	parts := make([]*tally, len(w.slots))
	t.start()
	for i := range w.slots {
		parts[i] = t.of()
		workers.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			errs[i] = w.threadLoop(i, parts[i])
			parts[i].clock.End()
		})
	}
	workers.Wait()
	for _, p := range parts {
		t.latency.Merge(p.latency)
	}
	return errors.Join(errs...)
}

// threadLoop is the loop of one thread.
func (w *work) threadLoop(i int, t *tally) error {
	next, buffer := w.threadCursor(i, len(w.slots)), w.slots[i]
	call := uintptr(syscall.SYS_PREAD64)
	if w.write {
		call = syscall.SYS_PWRITE64
	}
	begun := t.now()
	for over := false; !over; over = t.isOver(begun) {
		if w.write {
			stamp(buffer)
		}
		n, _, errno := syscall.RawSyscall6(call, uintptr(w.fd), uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)),
			uintptr(next.next()), 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		result := int(n)
		if errno != 0 {
			result = -int(errno)
		}
		if err := (completion{i, result}).check(len(buffer)); err != nil {
			return err
		}
		now := t.now()
		t.add(now, now-begun)
		t.clock.Did(1)
		if !t.isOver(now) {
			t.clock.Pause(now)
		}
		begun = now
	}
	return nil
}
