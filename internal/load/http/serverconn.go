package http

import (
	"bytes"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load/socket"
)

// maxRequest is the largest size of a request; this server reads no bodies.
const maxRequest = 8 << 10

// A serverConn is a connection of the server.
type serverConn struct {
	fd      int
	request [maxRequest]byte
	got     int   // bytes of request
	answer  *file // the one that is being sent; nil = none
	head    int   // bytes of its head that are not sent yet
	sent    int64 // bytes of its body that were sent after the head
	last    bool  // the connection closes afterwards
}

// serve continues the current request and answer; false if the connection must be closed.
func (g *serverConn) serve(w *serverThread) bool {
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
		g.answer, g.last = w.answer(g.request[:end])
		g.head, g.sent = len(g.answer.head), 0
		g.got = copy(g.request[:], g.request[end+4:g.got])
	}
}

// pull reads more of a request; more reports whether anything came.
func (g *serverConn) pull() (more, ok bool) {
	if g.got == len(g.request) {
		return false, false // the request is too long
	}
	n, errno := socket.Receive(g.fd, g.request[g.got:])
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

// answer returns the answer to a request, and whether the connection closes afterwards.
func (w *serverThread) answer(request []byte) (answer *file, last bool) {
	line, rest, _ := bytes.Cut(request, []byte("\r\n"))
	path, isGet := bytes.CutPrefix(line, []byte("GET "))
	path, version, _ := bytes.Cut(path, []byte(" "))
	last = !isGet || !bytes.Equal(version, []byte("HTTP/1.1")) || closesAfter(rest)
	if f := w.files[string(path)]; f != nil && isGet {
		return f, last
	}
	return w.notFound, last
}

// closesAfter reports whether the lines of a head ask to close the connection.
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

// push sends more of the answer; more reports whether something is left because the
// socket is full.
func (g *serverConn) push() (more, ok bool) {
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
		case errno != 0 || n == 0: // n == 0: the file became shorter
			return false, false
		}
	}
	return false, true
}

func (g *serverConn) pushSome(body int64) (int, syscall.Errno) {
	if g.head > 0 {
		flags := 0
		if body > 0 {
			flags = unix.MSG_MORE
		}
		n, errno := socket.Send(g.fd, g.answer.head[len(g.answer.head)-g.head:], flags)
		if errno == 0 {
			g.head -= n
		}
		return n, errno
	}
	offset := g.sent
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDFILE, uintptr(g.fd), uintptr(g.answer.fd),
		uintptr(unsafe.Pointer(&offset)), uintptr(body-g.sent), 0, 0)
	if errno == 0 {
		g.sent += int64(n)
	}
	return int(n), errno
}
