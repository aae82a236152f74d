package proc

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// OpenProcess returns a file that becomes readable when the process ends, and that never
// means another process of the same number: whether this one is still the one
// that is meant is to be seen afterwards. Waiting for it takes no thread. The
// error is unix.ENOSYS where the kernel has no such files (before 5.3).
func OpenProcess(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // or Go would not poll it
		return nil, errors.Join(os.NewSyscallError("fcntl", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "process"), nil
}

// AwaitEnd returns when the process of a file that OpenProcess returned has ended, or
// with the reason why ctx has.
func AwaitEnd(ctx context.Context, process *os.File) error {
	raw, err := process.SyscallConn()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = process.SetReadDeadline(time.Now()) })() // it can have been closed
	err = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
