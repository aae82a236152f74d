package oci

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A process is the first one of a container: a child of this process by
// adoption. It keeps its number until wait has returned, because nobody else
// waits for it.
type process struct {
	pid int
	// file becomes readable when the process ends. Waiting for that takes no
	// thread, whose waking would be in the times of the runtime's commands.
	// It is nil where the kernel has no such files (before 5.3).
	file *os.File
}

func openProcess(pid int) *process {
	p := &process{pid: pid}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return p
	}
	if err := unix.SetNonblock(fd, true); err != nil { // or Go would not poll it
		_ = unix.Close(fd) // it was not used
		return p
	}
	p.file = os.NewFile(uintptr(fd), "process")
	return p
}

// wait returns how the process ended. It is called once.
func (p *process) wait() (status syscall.WaitStatus, err error) {
	if p.file == nil {
		err = p.collect(&status, 0)
		return status, err
	}
	defer func() { _ = p.file.Close() }() // nothing is written to it
	raw, err := p.file.SyscallConn()
	if err != nil {
		return status, err
	}
	var ended error
	err = raw.Read(func(uintptr) bool {
		ended = p.collect(&status, unix.WNOHANG)
		return !errors.Is(ended, errRuns)
	})
	return status, errors.Join(err, ended)
}

// errRuns is the error of collecting the status of a process that runs.
var errRuns = errors.New("the process runs")

func (p *process) collect(status *syscall.WaitStatus, options int) error {
	for {
		pid, err := syscall.Wait4(p.pid, status, options, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err == nil && pid == 0:
			return errRuns
		default:
			return os.NewSyscallError("wait4", err)
		}
	}
}

// kill ends the process. It is not an error if it has ended.
func (p *process) kill() error {
	err := p.signal(unix.SIGKILL)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// signal goes by the file where there is one, which never means another
// process of the same number.
func (p *process) signal(s unix.Signal) error {
	if p.file == nil {
		return unix.Kill(p.pid, s)
	}
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), s, nil, 0) })
	return errors.Join(err, sent)
}
