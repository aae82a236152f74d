package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// The descriptors of task "init", besides the three standard ones.
const (
	// InitControl is the descriptor from which init reads its Instructions, one line
	// of JSON, and then one byte, which tells it to execute the program. If the writer
	// closes it before that, init exits.
	InitControl = 3
	// InitReport is the descriptor to which init writes a Report, one line of JSON,
	// when it is ready for that byte. It closes when the program is executed. If that
	// fails, init writes another Report first.
	InitReport = 4
)

// Instructions say what the floor engine's first process must set up in the namespaces
// in which it was started.
type Instructions struct {
	Root     Root        `json:"root"`
	Mounts   []InitMount `json:"mounts"` // in this order, after the root
	Hostname string      `json:"hostname"`
	Loopback bool        `json:"loopback"` // bring up the interface lo
	CgroupNS bool        `json:"cgroupns"` // enter a new cgroup namespace
	Keep     uint64      `json:"keep"`     // the capabilities that the program may get, as bits
	// NoNewPrivs keeps the program from ever getting more privileges.
	NoNewPrivs bool     `json:"no_new_privs"`
	Argv       []string `json:"argv"`
	Env        []string `json:"env"`
	Dir        string   `json:"dir"`
}

// DefaultCapabilities are the capabilities that Docker gives a container, as bits:
// chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap,
// net_bind_service, net_raw, sys_chroot, mknod, audit_write and setfcap.
const DefaultCapabilities uint64 = 1<<0 | 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 |
	1<<10 | 1<<13 | 1<<18 | 1<<27 | 1<<29 | 1<<31

// A Root is the new root file system, in paths of the host.
type Root struct {
	Target   string `json:"target"`            // the directory where it is assembled
	Overlay  string `json:"overlay,omitempty"` // options of the overlay; empty if Target has the files
	ReadOnly bool   `json:"ro,omitempty"`      // set last, when every mount has its target
}

// An InitMount is one mount(2) below the new root. A missing file or directory is made
// there.
type InitMount struct {
	Type     string `json:"type"`             // file system, or "bind"
	Source   string `json:"source,omitempty"` // of a bind mount, a path on the host; else a name
	Target   string `json:"target"`
	Flags    uint64 `json:"flags,omitempty"`
	Data     string `json:"data,omitempty"`
	ReadOnly bool   `json:"ro,omitempty"` // a bind mount becomes read-only
}

// A Report is the message of init: once when it is ready and, if it cannot execute the
// program, once more.
type Report struct {
	Argv   []string      `json:"argv,omitempty"`   // what init will execute
	Thread int           `json:"thread,omitempty"` // the thread that will do so, in init's PID namespace
	Step   string        `json:"step,omitempty"`   // the step that failed; empty if none did
	Errno  syscall.Errno `json:"errno,omitempty"`  // why, if the kernel said so
	Error  string        `json:"error,omitempty"`  // why, as text
}

// StepOverlay is the Step of a Report if the overlay cannot be mounted.
const StepOverlay = "mount overlay"

// initialize is the task "init". Its settings, above all the capabilities, belong to one
// thread, so it stays on that thread until the end.
func initialize(args []string, _, _ io.Writer) int {
	if len(args) != 0 {
		return exitUsage
	}
	runtime.LockOSThread()
	syscall.CloseOnExec(InitControl)
	syscall.CloseOnExec(InitReport)
	report := json.NewEncoder(os.NewFile(InitReport, "report"))
	control := bufio.NewReader(os.NewFile(InitControl, "control"))
	line, err := control.ReadBytes('\n')
	if err != nil {
		return exitFailed // tare is gone, so nobody reads a report
	}
	var in Instructions
	if err := json.Unmarshal(line, &in); err != nil {
		return fail(report, "read instructions", err)
	}
	if step, err := in.setUp(); err != nil {
		return fail(report, step, err)
	}
	if err := report.Encode(Report{Argv: in.Argv, Thread: syscall.Gettid()}); err != nil {
		return exitFailed
	}
	if _, err := control.ReadByte(); err != nil {
		return exitFailed
	}
	return fail(report, "execute "+in.Argv[0], in.exec())
}

func fail(report *json.Encoder, step string, err error) int {
	r := Report{Step: step, Error: err.Error()}
	errors.As(err, &r.Errno)
	_ = report.Encode(r) // if nobody reads it, only the exit status is left
	return exitFailed
}

// setUp does everything except executing the program. It names the step that failed.
func (in *Instructions) setUp() (step string, err error) {
	syscall.Umask(0)
	defer syscall.Umask(0o22) // the umask with which containers begin
	for _, s := range []struct {
		name string
		do   func() error
	}{
		{"make mounts private", func() error { return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "") }},
		{StepOverlay, in.Root.mount},
		{"mount", in.enter},
		{"set hostname", func() error { return syscall.Sethostname([]byte(in.Hostname)) }},
		{"bring up lo", in.loopback},
		{"new cgroup namespace", in.cgroupNS},
		{"change directory", func() error { return os.Chdir(in.Dir) }},
		{"confine", in.Confine},
	} {
		if err := s.do(); err != nil {
			return s.name, err
		}
	}
	return "", nil
}

// mount makes the root a mount of its own, as pivot_root needs it.
func (r Root) mount() error {
	if r.Overlay == "" {
		return syscall.Mount(r.Target, r.Target, "", syscall.MS_BIND|syscall.MS_REC, "")
	}
	return syscall.Mount("tare", r.Target, "overlay", 0, r.Overlay)
}

// enter changes to the new root and makes the mounts below it. It opens the sources
// before the change and looks up the targets after it, so that no link in an image can
// lead to a file of the host.
func (in *Instructions) enter() error {
	sources := make([]int, len(in.Mounts))
	for i, m := range in.Mounts {
		if m.Type != "bind" {
			continue
		}
		const oPath = 0x200000 // O_PATH, which package syscall lacks
		fd, err := syscall.Open(m.Source, oPath|syscall.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", m.Source, err)
		}
		defer func() { _ = syscall.Close(fd) }() // opened for its path alone
		sources[i] = fd
	}
	if err := os.Chdir(in.Root.Target); err != nil {
		return err
	}
	// The old root now lies on top of the new one; absolute paths do not see it.
	if err := syscall.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root to %s: %w", in.Root.Target, err)
	}
	for i, m := range in.Mounts {
		if err := m.mount(sources[i]); err != nil {
			return fmt.Errorf("%s: %w", m.Target, err)
		}
	}
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if !in.Root.ReadOnly {
		return nil
	}
	return remountReadOnly("/")
}

// mount makes one mount. A bind mount, whose source is fd, needs a mounted /proc.
func (m InitMount) mount(fd int) error {
	if m.Type != "bind" {
		if err := os.MkdirAll(m.Target, 0o755); err != nil {
			return err
		}
		return syscall.Mount(m.Source, m.Target, m.Type, uintptr(m.Flags), m.Data)
	}
	if err := makeTarget(m.Target, fd); err != nil {
		return err
	}
	source := fmt.Sprintf("/proc/self/fd/%d", fd)
	if err := syscall.Mount(source, m.Target, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", m.Source, err)
	}
	if !m.ReadOnly {
		return nil
	}
	return remountReadOnly(m.Target)
}

// makeTarget makes the target, if it is missing, for a mount of the file of fd.
func makeTarget(target string, fd int) error {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// remountReadOnly keeps the flags that an ordinary user may not clear.
func remountReadOnly(target string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(target, &st); err != nil {
		return err
	}
	keep := uintptr(st.Flags) & (syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC)
	if err := syscall.Mount("", target, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|keep, ""); err != nil {
		return fmt.Errorf("make read-only: %w", err)
	}
	return nil
}

// loopback brings up lo, to which the kernel then gives 127.0.0.1 and ::1.
func (in *Instructions) loopback() error {
	if !in.Loopback {
		return nil
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(fd) }() // nothing was written
	var request struct {                     // struct ifreq
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = syscall.IFF_UP
	return ok(syscall.RawSyscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))))
}

// cgroupNS hides the groups above init's own. tare has already moved init to its group,
// before it sent the instructions.
func (in *Instructions) cgroupNS() error {
	if !in.CgroupNS {
		return nil
	}
	const cloneNewCgroup = 0x2000000
	return ok(syscall.RawSyscall(syscall.SYS_UNSHARE, cloneNewCgroup, 0, 0))
}

// Confine drops the privileges that the program may not have from the calling thread.
// The floor engine does so too before it starts another process.
func (in *Instructions) Confine() error {
	if err := in.drop(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := in.noNewPrivs(); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// drop removes capabilities from the bounding set. That is enough: the program runs as
// root, and gets exactly the capabilities that are left in the set.
func (in *Instructions) drop() error {
	const prCapbsetDrop = 24
	for c := range uint(64) {
		if in.Keep&(1<<c) != 0 {
			continue
		}
		err := ok(syscall.RawSyscall(syscall.SYS_PRCTL, prCapbsetDrop, uintptr(c), 0))
		if errors.Is(err, syscall.EINVAL) {
			return nil // this kernel has no further capabilities
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (in *Instructions) noNewPrivs() error {
	if !in.NoNewPrivs {
		return nil
	}
	const prSetNoNewPrivs = 38
	return ok(syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0))
}

func ok(_, _ uintptr, errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// exec replaces init by the program. It returns only if that fails.
func (in *Instructions) exec() error {
	program := in.Argv[0]
	if strings.Contains(program, "/") {
		return syscall.Exec(program, in.Argv, in.Env)
	}
	var path string
	for _, kv := range in.Env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		err := syscall.Exec(filepath.Join(dir, program), in.Argv, in.Env)
		if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOTDIR) {
			return err
		}
	}
	return syscall.ENOENT
}
