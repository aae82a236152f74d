package network

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxBatch is the largest number of datagrams in one call: as many as the kernel splits
// from one buffer.
const maxBatch = 64

// A batch is a number of datagrams of one size, side by side in one buffer.
type batch struct {
	fd       int
	size     int // of a datagram
	capacity int // largest number of datagrams at once
	buffer   []byte
	segments bool // the kernel splits the buffer into datagrams (UDP_SEGMENT)
	vector   *vector
}

func newBatch(fd int, p *plan) *batch {
	b := &batch{fd: fd, size: p.Size, capacity: maxBatch}
	if p.Single {
		b.capacity = 1
	}
	b.segments = b.capacity > 1 && unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, p.Size) == nil
	b.buffer = make([]byte, b.capacity*p.Size)
	b.vector = newVector(b.buffer, b.capacity, p.Size)
	b.limit()
	return b
}

// limit reduces most to the number of datagrams that the kernel takes in one buffer.
func (b *batch) limit() {
	if b.segments {
		b.capacity = max(1, min(b.capacity, maxDatagram/b.size))
	}
}

// fill writes the headers of n datagrams.
func (b *batch) fill(n int, key, number uint64, now time.Duration) {
	for i := range n {
		putHeader(b.buffer[i*b.size:], key, number+uint64(i), uint64(now))
	}
}

// send sends the first n datagrams and returns how many it has sent.
func (b *batch) send(n int) (int, syscall.Errno) {
	if b.segments {
		_, errno := send(b.fd, b.buffer[:n*b.size])
		switch errno {
		case 0:
			return n, 0
		case unix.EINVAL, unix.EMSGSIZE, unix.EIO, unix.EOPNOTSUPP: // for example larger than the device's packets
			b.segments = false
			_ = unix.SetsockoptInt(b.fd, unix.SOL_UDP, unix.UDP_SEGMENT, 0) // cannot fail: setting it worked
		default:
			return 0, errno
		}
	}
	if n == 1 {
		_, errno := send(b.fd, b.buffer[:b.size])
		return firstErrno(errno), errno
	}
	return b.vector.send(b.fd, n)
}

func firstErrno(errno syscall.Errno) int {
	if errno == 0 {
		return 1
	}
	return 0
}

// sendDatagrams sends datagrams until s.quiet is set.
func (s *side) sendDatagrams(f *flow) {
	b := newBatch(f.fd, &s.plan)
	t := newSendRate(s.plan.Rate, s.plan.Size)
	begin := s.now()
	for number := uint64(0); !s.sendingOver.Load(); {
		n := t.batch(b.capacity)
		if !s.until(begin + t.dueTime(number)) {
			return
		}
		b.fill(n, s.key, number, s.now())
		sent, errno := b.send(n)
		number += uint64(sent)
		f.datagrams.Store(number)
		if errno != 0 && !isRetryable(errno) && errno != unix.ENOBUFS {
			f.err = s.threadError(errno)
			return
		}
	}
}

// receiveDatagrams receives datagrams until s.stop is set.
func (s *side) receiveDatagrams(f *flow) {
	largest := s.plan.Size
	if !s.plan.Single && unix.SetsockoptInt(f.fd, unix.SOL_UDP, unix.UDP_GRO, 1) == nil {
		largest = 64 << 10 // the kernel delivers several datagrams in one buffer
	}
	count := max(1, min(maxBatch, catchBytes/largest))
	buffer := make([]byte, count*largest)
	v := newVector(buffer, count, largest)
	for !s.stop.Load() {
		n, errno := v.receive(f.fd, s.plan.Single)
		if errno != 0 && !isRetryable(errno) && errno != unix.ECONNREFUSED {
			f.err = s.threadError(errno)
			return
		}
		now := int64(s.now())
		for i := range n {
			s.count(f, buffer[i*largest:][:v.length(i)], now)
		}
		f.datagrams.Store(f.arrivals.received)
	}
}

// catchBytes is the size of the receive buffer: small enough to stay in a cache.
const catchBytes = 512 << 10

// count counts the datagrams in p that belong to this session.
func (s *side) count(f *flow, p []byte, now int64) {
	for len(p) > 0 {
		n := min(len(p), s.plan.Size)
		if number, sent, ok := header(p[:n], s.key); ok && number != knock {
			f.arrivals.add(number, int64(sent), now)
			f.bytes.Add(int64(n))
		}
		p = p[n:]
	}
}

// A vector has the arguments of sendmmsg and recvmmsg.
type vector struct {
	messages []message
	vectors  []unix.Iovec
}

// A message is the kernel's struct mmsghdr.
type message struct {
	header unix.Msghdr
	length uint32
	_      [4]byte
}

// newVector returns a vector of count pieces of buffer.
func newVector(buffer []byte, count, size int) *vector {
	v := &vector{make([]message, count), make([]unix.Iovec, count)}
	for i := range v.messages {
		v.vectors[i].Base = &buffer[i*size]
		v.vectors[i].SetLen(size)
		v.messages[i].header.Iov = &v.vectors[i]
		v.messages[i].header.SetIovlen(1)
	}
	return v
}

func (v *vector) length(i int) int { return int(v.messages[i].length) }

// send sends the first n pieces, and returns how many it has sent.
func (v *vector) send(fd, n int) (int, syscall.Errno) {
	sent, _, errno := syscall.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&v.messages[0])),
		uintptr(n), unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(sent), 0
}

// receive waits for the first datagram, and also takes those that are already there. It
// returns the number of filled pieces.
func (v *vector) receive(fd int, single bool) (int, syscall.Errno) {
	n := len(v.messages)
	if single {
		n = 1
	}
	got, _, errno := syscall.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&v.messages[0])),
		uintptr(n), unix.MSG_WAITFORONE, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(got), 0
}
