package disk

import (
	"syscall"
	"unsafe"
)

// An aio is the kernel's old interface for asynchronous requests, which libaio wraps.
// With buffered files, io_submit blocks.
type aio struct {
	context  uintptr
	requests []iocb // one for each slot
	events   []ioEvent
}

// iocb is struct iocb of linux/aio_abi.h, little endian. Fields without a name stay zero.
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
	a := &aio{requests: make([]iocb, n), events: make([]ioEvent, n)}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_IO_SETUP, uintptr(n),
		uintptr(unsafe.Pointer(&a.context)), 0); errno != 0 {
		return nil, syscallError("io_setup", errno)
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

// The kernel reads the iocb before io_submit returns.
func (a *aio) submit(slot int, offset int64) error {
	a.requests[slot].offset = offset
	line := &a.requests[slot]
	for {
		_, _, errno := syscall.RawSyscall(syscall.SYS_IO_SUBMIT, a.context, 1, uintptr(unsafe.Pointer(&line)))
		switch errno {
		case 0:
			return nil
		case syscall.EINTR, syscall.EAGAIN:
		default:
			return syscallError("io_submit", errno)
		}
	}
}

func (a *aio) wait(done []completion) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_IO_GETEVENTS, a.context, 1, uintptr(len(a.events)),
			uintptr(unsafe.Pointer(&a.events[0])), 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			return 0, syscallError("io_getevents", errno)
		}
		for i, e := range a.events[:n] {
			done[i] = completion{int(e.data), int(e.result)}
		}
		return int(n), nil
	}
}

// close waits for requests in flight.
func (a *aio) close() error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_IO_DESTROY, a.context, 0, 0); errno != 0 {
		return syscallError("io_destroy", errno)
	}
	return nil
}
