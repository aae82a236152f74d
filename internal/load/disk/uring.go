package disk

import (
	"errors"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// The system calls of io_uring have the same numbers on every architecture.
const (
	sysUringSetup = 425
	sysUringEnter = 426
)

// From linux/io_uring.h.
const (
	setupCoopTaskrun  = 1 << 8
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13

	featureSingleMmap = 1 << 0
	featureCurrentPos = 1 << 3 // came with the operations read and write, in Linux 5.6

	offsetRings   = 0
	offsetEntries = 0x10000000

	opRead  = 22
	opWrite = 23

	enterGetEvents = 1 << 0
)

// uringParams is struct io_uring_params.
type uringParams struct {
	sqEntries, cqEntries, flags, threadCPU, threadIdle, features, wqFD uint32
	_                                                                  [3]uint32
	sq                                                                 struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, cqes, flags, _ uint32
		_                                                   uint64
	}
}

// uringEntry is struct io_uring_sqe.
type uringEntry struct {
	opcode, flags uint8
	priority      uint16
	fd            int32
	offset        uint64
	address       uint64
	bytes         uint32
	rwFlags       uint32
	data          uint64
	_             [3]uint64
}

// uringResult is struct io_uring_cqe.
type uringResult struct {
	data   uint64
	result int32
	flags  uint32
}

// A uring is a pair of rings that are shared with the kernel: one of requests, whose tail
// this process writes, and one of completions, whose head it writes.
type uring struct {
	fd             uintptr
	rings, memory  []byte
	entries        []uringEntry // one for each slot
	order          []uint32     // the ring of requests: slots
	orderMask      uint32
	tail           *uint32
	results        []uringResult // the ring of completions
	resultMask     uint32
	head, produced *uint32
	opcode         uint8
	file           int32
	slots          [][]byte
}

func openUring(w work) (*uring, error) {
	fd, p, err := setupUring(uint32(len(w.slots)))
	if err != nil {
		return nil, err
	}
	u := &uring{fd: fd, opcode: opRead, file: int32(w.fd), slots: w.slots}
	if w.write {
		u.opcode = opWrite
	}
	if err := u.mapRings(p); err != nil {
		return nil, errors.Join(err, u.close())
	}
	return u, nil
}

// setupUring lets the kernel deliver completions only when the process waits for them,
// which kernels since 6.1 offer to a ring with one thread.
func setupUring(depth uint32) (uintptr, *uringParams, error) {
	for _, flags := range []uint32{setupCoopTaskrun | setupSingleIssuer | setupDeferTaskrun, 0} {
		p := &uringParams{flags: flags}
		fd, _, errno := syscall.RawSyscall(sysUringSetup, uintptr(depth), uintptr(unsafe.Pointer(p)), 0)
		if errno == syscall.EINVAL && flags != 0 {
			continue
		}
		if errno != 0 {
			return 0, nil, syscallError("io_uring_setup", errno)
		}
		if want := uint32(featureSingleMmap | featureCurrentPos); p.features&want != want {
			return 0, nil, errors.Join(errors.New("io_uring has no read and write in kernels before 5.6"), closeFD(fd))
		}
		return fd, p, nil
	}
	panic("unreachable")
}

// mapRings maps the rings.
func (u *uring) mapRings(p *uringParams) (err error) {
	size := max(int(p.sq.array)+int(p.sqEntries)*4, int(p.cq.cqes)+int(p.cqEntries)*int(unsafe.Sizeof(uringResult{})))
	if u.rings, err = u.mmap(offsetRings, size); err != nil {
		return err
	}
	if u.memory, err = u.mmap(offsetEntries, int(p.sqEntries)*int(unsafe.Sizeof(uringEntry{}))); err != nil {
		return err
	}
	u.entries = unsafe.Slice((*uringEntry)(unsafe.Pointer(&u.memory[0])), p.sqEntries)
	u.order = unsafe.Slice(u.word(p.sq.array), p.sqEntries)
	u.orderMask, u.tail = *u.word(p.sq.mask), u.word(p.sq.tail)
	u.results = unsafe.Slice((*uringResult)(unsafe.Pointer(&u.rings[p.cq.cqes])), p.cqEntries)
	u.resultMask, u.head, u.produced = *u.word(p.cq.mask), u.word(p.cq.head), u.word(p.cq.tail)
	return nil
}

func (u *uring) mmap(offset int64, size int) ([]byte, error) {
	m, err := syscall.Mmap(int(u.fd), offset, size, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED|syscall.MAP_POPULATE)
	if err != nil {
		return nil, errors.Join(errors.New("map the rings of io_uring"), err)
	}
	return m, nil
}

func (u *uring) word(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&u.rings[offset])) }

func (u *uring) submit(slot int, offset int64) error {
	u.entries[slot] = uringEntry{
		opcode: u.opcode, fd: u.file, offset: uint64(offset), data: uint64(slot),
		address: uint64(address(u.slots[slot])), bytes: uint32(len(u.slots[slot])),
	}
	tail := *u.tail // only this process writes it
	u.order[tail&u.orderMask] = uint32(slot)
	atomic.StoreUint32(u.tail, tail+1)
	for {
		// With enterGetEvents the same call collects completions, which saves another one.
		if n, err := u.enter(1, 0, enterGetEvents); n == 1 || err != nil {
			return err
		}
	}
}

func (u *uring) wait(done []completion) (int, error) {
	for {
		if n := u.reap(done); n > 0 {
			return n, nil
		}
		if _, err := u.enter(0, 1, enterGetEvents); err != nil {
			return 0, err
		}
	}
}

// enter returns how many requests the kernel took; 0 if it was interrupted.
func (u *uring) enter(submit, complete, flags uintptr) (uintptr, error) {
	n, _, errno := syscall.RawSyscall6(sysUringEnter, u.fd, submit, complete, flags, 0, 0)
	switch errno {
	case 0:
		return n, nil
	case syscall.EINTR, syscall.EAGAIN, syscall.EBUSY:
		return 0, nil
	default:
		return 0, syscallError("io_uring_enter", errno)
	}
}

// reap takes completions out of their ring.
func (u *uring) reap(done []completion) int {
	head, tail := *u.head, atomic.LoadUint32(u.produced)
	n := 0
	for ; head != tail && n < len(done); head++ {
		r := &u.results[head&u.resultMask]
		done[n] = completion{int(r.data), int(r.result)}
		n++
	}
	atomic.StoreUint32(u.head, head)
	return n
}

func (u *uring) close() error {
	for _, m := range [][]byte{u.memory, u.rings} {
		if m != nil {
			unmapMemory(m)
		}
	}
	return closeFD(u.fd)
}

func closeFD(fd uintptr) error { return syscall.Close(int(fd)) }
