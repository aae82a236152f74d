package proc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// maxFile limits what is read from one kernel file, in bytes. The mounts of a machine with
// thousands of containers are the largest.
const maxFile = 8 << 20

// ReadFile reads a file of a kernel file system. It fails if the file has more than limit bytes. It
// makes only the four necessary system calls, because tare reads dozens of such files in each
// trial. os.ReadFile also asks for the size, which is always 0, and whether the file can be polled.
func ReadFile(name string, limit int) ([]byte, error) {
	fd, err := retryEINTR(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer func() { _ = unix.Close(fd) }() // it was only read
	text := make([]byte, 0, 4096)
	for {
		n, err := retryEINTR(func() (int, error) { return unix.Read(fd, text[len(text):cap(text)]) })
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: name, Err: err}
		}
		text = text[:len(text)+n]
		switch {
		case n == 0:
			return text, nil
		case len(text) > limit:
			return nil, fmt.Errorf("%s: more than %d bytes", name, limit)
		case len(text) == cap(text):
			text = append(text, 0)[:len(text)]
		}
	}
}

// retryEINTR repeats a system call that a signal has interrupted.
func retryEINTR(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func readFile(name string) ([]byte, error) { return ReadFile(name, maxFile) }
