// Package hostns starts programs in the namespaces of the host, from a privileged container that sees the host's
// processes.
package hostns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/netns"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// spaces are the namespaces that are entered: which of them a container shares with its host anyway does not matter.
var spaces = []struct {
	name string
	flag int
}{
	{"cgroup", unix.CLONE_NEWCGROUP},
	{"ipc", unix.CLONE_NEWIPC},
	{"uts", unix.CLONE_NEWUTS},
	{"net", unix.CLONE_NEWNET},
	{"mnt", unix.CLONE_NEWNS}, // last: afterwards /proc is the host's
}

// inherited is the descriptor of the program's own file where Self has started it: the first of ExtraFiles.
const inherited = 3

// Self is a command that runs this very program with other arguments, whose file need not exist where it is started.
// There, Arrive must be called first.
func Self(args ...string) (*exec.Cmd, error) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{
		Path: fmt.Sprintf("/proc/self/fd/%d", inherited), Args: append([]string{os.Args[0]}, args...),
		ExtraFiles: []*os.File{self},
	}, nil
}

// Start starts a command where the engine runs that has started this process as a container: in the namespaces of its
// parent, such as containerd's shim, and in its root directory. It needs the right to enter them, and to see the
// processes of the host. On most hosts these are the namespaces of the process with the ID 1, but not where engines
// themselves run in some. Start closes the files that Self has opened.
func Start(cmd *exec.Cmd) error {
	defer func() {
		for _, f := range cmd.ExtraFiles {
			_ = f.Close() // nothing was written to it
		}
	}()
	engine := os.Getppid()
	if engine == 0 {
		return errors.New("the container does not see the processes of its host: the pod must have hostPID")
	}
	return startBeside(cmd, engine)
}

// Arrive lets the program that Self has started leave the control groups of its container, for those of the engine. So
// no limit of the container holds for it, and it is no longer ended with the container, whose first process is first.
func Arrive(first int) error {
	_ = unix.Close(inherited) // what runs stays open
	container, err := proc.Find("/", first)
	if err != nil {
		return err
	}
	groups, err := cgroup.Detect("/")
	if err == nil {
		err = groups.AttachBeside(0, container.Parent)
	}
	if err != nil {
		return fmt.Errorf("leave the control groups of the pod: %w", err)
	}
	// Whoever may not do this is only killed earlier when memory is short.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("0"), 0)
	return nil
}

func startBeside(cmd *exec.Cmd, pid int) error {
	opened := make([]*os.File, len(spaces))
	for i, s := range spaces {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, s.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // this kernel has none of the kind
		}
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // nothing is written to it
		opened[i] = f
	}
	cmd.Dir = "/"
	return netns.Elsewhere(func() (back bool, err error) {
		// Go's threads share their root directory, and who shares it may not change its mount namespace.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return false, os.NewSyscallError("unshare", err)
		}
		for i, f := range opened {
			if f == nil {
				continue
			}
			if err := unix.Setns(int(f.Fd()), spaces[i].flag); err != nil {
				return false, &os.PathError{Op: "enter", Path: f.Name(), Err: err}
			}
		}
		return false, cmd.Start()
	})
}
