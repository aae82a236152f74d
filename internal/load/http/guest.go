package http

import (
	"bytes"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxRequest is how long a request may be; this server reads no bodies.
const maxRequest = 8 << 10

// A guest is a connection of the server.
type guest struct {
	fd      int
	request [maxRequest]byte
	got     int   // bytes of request
	answer  *file // that is being sent; nil where none is
	head    int   // bytes of its head that are still to be sent
	sent    int64 // bytes of its body that were sent behind the head
	last    bool  // the connection closes afterwards
}

// serve goes on with what is under way; false if the connection is to be closed.
func (g *guest) serve(w *waiter) bool {
	for {
		if g.answer != nil {
			if more, ok := g.push(); !ok || more {
				return ok
			}
			if g.answer = nil; g.last {
				return false
			}
		}
		end := bytes.Index(g.request[:g.got], []byte("\r\n\r\n"))
		if end < 0 {
			if more, ok := g.pull(); !ok || !more {
				return ok
			}
			continue
		}
		g.answer, g.last = w.answerTo(g.request[:end])
		g.head, g.sent = len(g.answer.head), 0
		g.got = copy(g.request[:], g.request[end+4:g.got])
	}
}

// pull reads on; more tells whether anything came.
func (g *guest) pull() (more, ok bool) {
	if g.got == len(g.request) {
		return false, false // a request without end
	}
	n, errno := receive(g.fd, g.request[g.got:])
	switch {
	case errno == unix.EAGAIN:
		return false, true
	case errno == unix.EINTR:
		return true, true
	case errno != 0 || n == 0:
		return false, false
	}
	g.got += n
	return true, true
}

// answerTo reads a request, and tells whether the connection closes afterwards.
func (w *waiter) answerTo(request []byte) (answer *file, last bool) {
	line, rest, _ := bytes.Cut(request, []byte("\r\n"))
	path, isGet := bytes.CutPrefix(line, []byte("GET "))
	path, version, _ := bytes.Cut(path, []byte(" "))
	last = !isGet || !bytes.Equal(version, []byte("HTTP/1.1")) || closesAfter(rest)
	if f := w.files[string(path)]; f != nil && isGet {
		return f, last
	}
	return w.lost, last
}

// closesAfter tells whether the lines of a head ask for a connection to be closed.
func closesAfter(head []byte) bool {
	r := response{length: -1}
	for len(head) > 0 {
		var line []byte
		line, head, _ = bytes.Cut(head, []byte("\r\n"))
		if len(line) > 0 && r.takeHeader(line) != nil {
			return true
		}
	}
	return r.closes
}

// push sends on; more tells whether something is left, for when there is room.
func (g *guest) push() (more, ok bool) {
	body := g.answer.size
	if body <= smallFile {
		body = 0 // it is part of the head
	}
	for g.head > 0 || g.sent < body {
		n, errno := g.pushSome(body)
		switch {
		case errno == unix.EAGAIN:
			return true, true
		case errno == unix.EINTR:
		case errno != 0 || n == 0: // or the file has become shorter
			return false, false
		}
	}
	return false, true
}

func (g *guest) pushSome(body int64) (int, syscall.Errno) {
	if g.head > 0 {
		flags := 0
		if body > 0 {
			flags = unix.MSG_MORE
		}
		n, errno := send(g.fd, g.answer.head[len(g.answer.head)-g.head:], flags)
		if errno == 0 {
			g.head -= n
		}
		return n, errno
	}
	offset := g.sent
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDFILE, uintptr(g.fd), uintptr(g.answer.fd), uintptr(unsafe.Pointer(&offset)), uintptr(body-g.sent), 0, 0)
	if errno == 0 {
		g.sent += int64(n)
	}
	return int(n), errno
}
