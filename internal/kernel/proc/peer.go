package proc

import (
	"net"

	"golang.org/x/sys/unix"
)

// Peer returns the process that listened at the other end of a Unix socket; 0 if it is unknown, as
// over TCP or if the process is not visible in this PID namespace.
func Peer(conn net.Conn) int {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	err = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	if err != nil {
		return 0
	}
	return pid
}
