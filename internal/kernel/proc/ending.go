package proc

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// OpenProcess returns a pidfd as a file, which becomes readable when the process ends. The file
// never means another process with the same number. The caller must check afterwards that it opened
// the intended process. Waiting for it needs no thread. The error is unix.ENOSYS if the kernel has
// no pidfds (before 5.3).
func OpenProcess(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // otherwise Go would not poll it
		return nil, errors.Join(os.NewSyscallError("fcntl", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "process"), nil
}

// AwaitEnd returns nil when the process of a file from OpenProcess has ended, or the cause when ctx
// ends.
func AwaitEnd(ctx context.Context, process *os.File) error {
	raw, err := process.SyscallConn()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = process.SetReadDeadline(time.Now()) })() // it may be closed already
	err = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
