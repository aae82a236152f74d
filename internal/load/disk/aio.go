package disk

import (
	"syscall"
	"unsafe"
)

// An aio is the kernel's old interface for requests that do not block: what
// libaio wraps. With buffered files io_submit does block.
type aio struct {
	context  uintptr
	requests []iocb  // one for each slot
	line     []*iocb // in line
	events   []ioEvent
}

// iocb is struct iocb of linux/aio_abi.h, little endian. What has no name here
// stays zero.
type iocb struct {
	data   uint64
	_      [2]uint32
	opcode uint16
	_      int16
	fd     uint32
	buffer uint64
	bytes  uint64
	offset int64
	_      uint64
	_      [2]uint32
}

// ioEvent is struct io_event.
type ioEvent struct {
	data, object uint64
	result       int64
	_            int64
}

const (
	aioRead  = 0 // IOCB_CMD_PREAD
	aioWrite = 1 // IOCB_CMD_PWRITE
)

func openAIO(w work) (*aio, error) {
	n := len(w.slots)
	a := &aio{requests: make([]iocb, n), line: make([]*iocb, 0, n), events: make([]ioEvent, n)}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_IO_SETUP, uintptr(n), uintptr(unsafe.Pointer(&a.context)), 0); errno != 0 {
		return nil, refused("io_setup", errno)
	}
	for i := range a.requests {
		a.requests[i] = iocb{
			data: uint64(i), fd: uint32(w.fd), opcode: aioRead,
			buffer: uint64(address(w.slots[i])), bytes: uint64(len(w.slots[i])),
		}
		if w.write {
			a.requests[i].opcode = aioWrite
		}
	}
	return a, nil
}

// address of memory that the garbage collector does not manage.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func (a *aio) prepare(slot int, offset int64) {
	a.requests[slot].offset = offset
	a.line = append(a.line, &a.requests[slot])
}

func (a *aio) turn(done []completion) (int, error) {
	if err := a.submit(); err != nil {
		return 0, err
	}
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_IO_GETEVENTS, a.context, 1, uintptr(len(a.events)), uintptr(unsafe.Pointer(&a.events[0])), 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			return 0, refused("io_getevents", errno)
		}
		for i, e := range a.events[:n] {
			done[i] = completion{int(e.data), int(e.result)}
		}
		return int(n), nil
	}
}

// submit hands in what is in line. What the kernel has taken needs its iocb no
// longer.
func (a *aio) submit() error {
	line := a.line
	for len(line) > 0 {
		n, _, errno := syscall.RawSyscall(syscall.SYS_IO_SUBMIT, a.context, uintptr(len(line)), uintptr(unsafe.Pointer(&line[0])))
		if errno == syscall.EINTR || errno == syscall.EAGAIN {
			continue
		}
		if errno != 0 {
			return refused("io_submit", errno)
		}
		line = line[n:]
	}
	a.line = a.line[:0]
	return nil
}

// close waits for what is still under way.
func (a *aio) close() error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_IO_DESTROY, a.context, 0, 0); errno != 0 {
		return refused("io_destroy", errno)
	}
	return nil
}
