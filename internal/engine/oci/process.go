package oci

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// A process is the first process of a container. It is a child of this process, which adopted it as
// its reaper. It keeps its number until wait has returned, because nothing else waits for it.
type process struct {
	pid int

	mu     sync.Mutex // held while the process is signalled or collected
	reaped bool       // another process can have its number
	// file is the pidfd, which becomes readable when the process ends. Waiting for it needs no
	// thread, which would wake up during the runtime's commands. It is nil if the kernel has no
	// pidfds (before 5.3).
	file *os.File
}

func openProcess(pid int) (*process, error) {
	file, err := proc.OpenProcess(pid)
	if err != nil && !errors.Is(err, unix.ENOSYS) {
		return nil, err
	}
	return &process{pid: pid, file: file}, nil
}

// wait returns how the process ended. It is called once.
func (p *process) wait() (status syscall.WaitStatus, err error) {
	if p.file == nil {
		if err := awaitExit(p.pid); err != nil {
			return status, err
		}
		err = p.collect(&status)
		return status, err
	}
	defer p.close()
	raw, err := p.file.SyscallConn()
	if err != nil {
		return status, err
	}
	var end error
	err = raw.Read(func(uintptr) bool {
		end = p.collect(&status)
		return !errors.Is(end, errStillRunning)
	})
	return status, errors.Join(err, end)
}

// awaitExit returns when a child has ended. It does not collect the status.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("waitid", err)
		}
	}
}

// errStillRunning means that the process to collect still runs.
var errStillRunning = errors.New("the process still runs")

// collect collects the status of a process that has ended.
func (p *process) collect(status *syscall.WaitStatus) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		pid, err := syscall.Wait4(p.pid, status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err == nil && pid == 0:
			return errStillRunning
		default:
			p.reaped = true // also if it is no longer a child
			return os.NewSyscallError("wait4", err)
		}
	}
}

func (p *process) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.file.Close() // nothing is written to it
	p.file = nil
}

// kill ends the process. It is not an error if it has ended.
func (p *process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil
	}
	if err := p.signal(unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// signal uses the pidfd if there is one, because that never means another process with the same
// number. Otherwise it uses the number, which is safe until the process is reaped.
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
