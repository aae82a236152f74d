package http

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/socket"
)

// ServerName is the load that serves files.
const ServerName = "http-server"

// Serve runs the load http-server: it listens, reports its port, and serves the files of
// a directory until the process ends.
func Serve(a *load.Args) (*load.Report, error) {
	root, list := a.Text("root", "/"), a.Text("cpus", "")
	port := a.Int("port", 0, 0, 65_535)
	cpus, err := affinity.Parse(list)
	if err = errors.Join(err, a.Err()); err != nil {
		return nil, err
	}
	files, err := openFiles(root)
	if err != nil {
		return nil, err
	}
	s := &server{files: files}
	if s.fd, s.port, err = listen(uint16(port)); err != nil {
		return nil, err
	}
	threads := max(1, len(cpus))
	load.SetThreads(threads + runtimeThreads) // until the process ends
	for i := range threads {
		w, err := s.newServerThread()
		if err != nil {
			return nil, err
		}
		go func() {
			runtime.LockOSThread()
			if len(cpus) > 0 {
				affinity.Pin(cpus[i])
			}
			w.run()
		}()
	}
	r := load.NewReport(ServerName)
	r.Facts["port"] = strconv.Itoa(int(s.port))
	return r, nil
}

// listen opens a port on all addresses; 0 = any free port.
func listen(port uint16) (fd int, bound uint16, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, 0, err
	}
	const backlog = 4096
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Port: int(port)}),
		unix.Listen(fd, backlog))
	if err != nil {
		socket.Close(fd)
		return 0, 0, fmt.Errorf("listen on port %d: %w", port, err)
	}
	sa, err := unix.Getsockname(fd)
	if in4, ok := sa.(*unix.SockaddrInet4); ok && err == nil {
		bound = uint16(in4.Port)
	}
	return fd, bound, err
}

// A file is a file that the server serves.
type file struct {
	fd   int
	size int64
	head []byte // of the answer; for a small file the whole answer
}

// The bounds of the served files.
const (
	maxFiles  = 1000
	smallFile = 64 << 10 // is sent together with its head
)

// openFiles opens the files of a directory, without subdirectories.
func openFiles(root string) (map[string]*file, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	files := map[string]*file{}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		if len(files) == maxFiles {
			return nil, fmt.Errorf("%s has more than %d files", root, maxFiles)
		}
		f, err := openFile(filepath.Join(root, e.Name()))
		if err != nil {
			return nil, err
		}
		files["/"+e.Name()] = f
	}
	return files, nil
}

func openFile(path string) (*file, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	f := &file{fd: fd, size: st.Size, head: headOf(200, "OK", st.Size)}
	if f.size > smallFile {
		return f, nil
	}
	body := make([]byte, f.size)
	if n, err := unix.Pread(fd, body, 0); err != nil || n < len(body) {
		return nil, &os.PathError{Op: "read", Path: path, Err: errors.Join(err, errEarly)}
	}
	f.head = append(f.head, body...)
	return f, nil
}

func headOf(status int, reason string, size int64) []byte {
	return fmt.Appendf(nil,
		"HTTP/1.1 %d %s\r\nServer: tare\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n", status,
		reason, size)
}

// A server is the part that all threads share.
type server struct {
	fd    int
	port  uint16
	files map[string]*file
}

// A serverThread is one thread of the server with its connections.
type serverThread struct {
	*server
	poll     *socket.Poll
	conns    map[int]*serverConn // by socket
	notFound *file               // the answer for a missing file
}

// listener is the key of the listening socket in the poll.
const listener = -1

func (s *server) newServerThread() (*serverThread, error) {
	p, err := socket.NewPoll()
	if err != nil {
		return nil, err
	}
	if errno := p.Add(s.fd, listener, unix.EPOLLIN|unix.EPOLLEXCLUSIVE); errno != 0 {
		return nil, fmt.Errorf("epoll: %w", errno)
	}
	none := &file{head: headOf(404, "Not Found", 0)}
	return &serverThread{server: s, poll: p, conns: map[int]*serverConn{}, notFound: none}, nil
}

// run serves without end.
func (w *serverThread) run() {
	for {
		for _, e := range w.poll.Wait(deadlineInterval) {
			if e.Fd == listener {
				w.accept()
			} else if g := w.conns[int(e.Fd)]; g != nil && !g.serve(w) {
				socket.Close(g.fd)
				delete(w.conns, g.fd)
			}
		}
	}
}

func (w *serverThread) accept() {
	for {
		fd, _, errno := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(w.fd), 0, 0, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
		if errno != 0 {
			return // another thread was faster, or there are no free descriptors: the event comes again
		}
		socket.Set(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		if w.poll.Add(int(fd), int(fd), socket.Edges) != 0 {
			socket.Close(int(fd))
			continue
		}
		w.conns[int(fd)] = &serverConn{fd: int(fd)}
	}
}
