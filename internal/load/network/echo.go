package network

import "golang.org/x/sys/unix"

// echo sends back whatever comes on a socket, until it is told to stop or the
// other side has closed.
func (c *crew) echo(fd int, buffer []byte) {
	for !c.stop.Load() {
		n, errno := receive(fd, buffer)
		switch {
		case errno != 0 && again(errno):
			continue
		case errno == unix.ECONNREFUSED:
			continue // of a datagram whose sender has gone; who is there says the control connection
		case errno != 0 || n == 0:
			return
		}
		if !c.sendAll(fd, buffer[:n]) {
			return
		}
	}
}

// sendAll sends p; of a stream that takes less at once, bit by bit.
func (c *crew) sendAll(fd int, p []byte) bool {
	for len(p) > 0 && !c.stop.Load() {
		n, errno := send(fd, p)
		switch {
		case errno == 0:
			p = p[n:]
		case again(errno):
		case errno == unix.ECONNREFUSED:
			return true // as above
		default:
			return false
		}
	}
	return len(p) == 0
}
