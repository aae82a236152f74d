package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// serve is a minimal service: after a delay it listens on a TCP port of all addresses, or at a
// Unix socket, prints a line, and answers HTTP requests one after the other until SIGTERM.
// Its only path is "/".
func serve(args []string, stdout, stderr io.Writer) int {
	if len(args) < 1 || len(args) > 2 {
		return exitUsage
	}
	at, where, err := listenAddress(args[0])
	if err != nil {
		return exitUsage
	}
	var delay time.Duration
	if len(args) == 2 {
		if delay, err = time.ParseDuration(args[1]); err != nil || delay < 0 {
			return exitUsage
		}
	}
	term := terminated()
	select {
	case <-term:
		return exitOK
	case <-time.After(delay):
	}
	listener, err := listen(at)
	if err != nil {
		return result(stderr, "serve", err)
	}
	go answerAll(listener)
	if _, err := fmt.Fprintf(stdout, "listening on %s\n", where); err != nil {
		return result(stderr, "serve", err)
	}
	<-term
	return exitOK
}

// listenAddress reads a port, or the absolute path of a Unix socket.
func listenAddress(text string) (at syscall.Sockaddr, where string, err error) {
	if filepath.IsAbs(text) {
		return &syscall.SockaddrUnix{Name: text}, text, nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err == nil && port == 0 {
		err = errors.New("port 0")
	}
	return &syscall.SockaddrInet4{Port: int(port)}, fmt.Sprintf("port %d", port), err
}

func listen(at syscall.Sockaddr) (fd int, err error) {
	family := syscall.AF_INET
	if _, ok := at.(*syscall.SockaddrUnix); ok {
		family = syscall.AF_UNIX
	}
	fd, err = syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("socket: %w", err)
	}
	// Connections of an earlier server on this port are no reason to fail.
	err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(fd, at)
	}
	if err == nil {
		err = syscall.Listen(fd, syscall.SOMAXCONN)
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("listen: %w", err), syscall.Close(fd))
	}
	return fd, nil
}

// answerAll answers one connection after the other.
func answerAll(listener int) {
	for {
		fd, _, err := syscall.Accept(listener)
		if err != nil {
			continue // the client has gone
		}
		answer(fd)
		_ = syscall.Close(fd) // the client notices
	}
}

// idleTimeout is how long a client may send nothing.
const idleTimeout = time.Second

// answer answers one request.
func answer(fd int) {
	limit := syscall.NsecToTimeval(int64(idleTimeout))
	// on an error, other clients wait for a silent one
	_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit)
	var request [4096]byte
	n := 0
	for !bytes.Contains(request[:n], []byte("\r\n\r\n")) {
		more, err := syscall.Read(fd, request[n:])
		if err != nil || more <= 0 {
			return
		}
		n += more
	}
	reply := "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	if bytes.HasPrefix(request[:n], []byte("GET / ")) {
		reply = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"
	}
	_, _ = syscall.Write(fd, []byte(reply)) // as above
}

// probe succeeds if a server listens on a TCP port of loopback.
func probe(args []string, _, stderr io.Writer) int {
	if len(args) != 1 {
		return exitUsage
	}
	port, err := strconv.ParseUint(args[0], 10, 16)
	if err != nil || port == 0 {
		return exitUsage
	}
	return result(stderr, "probe", dial(int(port)))
}

func dial(port int) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	err = syscall.Connect(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err != nil {
		err = fmt.Errorf("connect to port %d: %w", port, err)
	}
	return errors.Join(err, syscall.Close(fd))
}
