package network

import "golang.org/x/sys/unix"

// echo sends everything back that comes on a socket, until c.stop is set or the other side
// has closed.
func (c *pool) echo(fd int, buffer []byte) {
	for !c.stop.Load() {
		n, errno := receive(fd, buffer)
		switch {
		case errno != 0 && isRetryable(errno):
			continue
		case errno == unix.ECONNREFUSED:
			continue // the sender of a datagram has gone; the control connection notices that
		case errno != 0 || n == 0:
			return
		}
		if !c.sendAll(fd, buffer[:n]) {
			return
		}
	}
}

// sendAll sends p, in several calls if a stream takes less at once.
func (c *pool) sendAll(fd int, p []byte) bool {
	for len(p) > 0 && !c.stop.Load() {
		n, errno := send(fd, p)
		switch {
		case errno == 0:
			p = p[n:]
		case isRetryable(errno):
		case errno == unix.ECONNREFUSED:
			return true // as above
		default:
			return false
		}
	}
	return len(p) == 0
}
