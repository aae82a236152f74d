package proc

import (
	"net"

	"golang.org/x/sys/unix"
)

// Peer returns the process at the other end of a Unix socket, the one that
// listened there; 0 where it cannot be told, such as over TCP or where it is
// not seen from this process's PID namespace.
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
