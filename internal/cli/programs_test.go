package cli_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// programs are what the test binary can be besides a test, by name.
func programs() map[string]func() {
	return map[string]func(){
		"mask":     func() { exit(maskVariable(os.Stdin, os.Stdout)) },
		"enormous": func() { exit(enormous(os.Args[1])) },
		"tty":      func() { exit(onTerminal(os.Args[1:], nil)) },
		"typed":    func() { exit(onTerminal(os.Args[2:], []byte(os.Args[1]+"\n"))) },
		"readonly": func() { exit(readOnly(os.Args[1], os.Args[2:])) },
	}
}

// exit ends a program like the one that it ran.
func exit(err error) {
	var status *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &status):
		os.Exit(status.ExitCode())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// maskVariable replaces what differs from run to run, and the padding that it caused.
func maskVariable(in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, maskedText(string(text)))
	return err
}

func maskedText(text string) string {
	for _, m := range []struct{ pattern, by string }{
		{`\x1b\[[0-9;]*[A-Za-z]`, ""},
		{`\d{8}-\d{6}-[a-z2-7]{4}`, "RUN"},
		{`\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d+)?Z| \d\d:\d\d)`, "TIME"},
		{`\d[\d.,]* (ns|µs|ms|s)\b`, "DURATION"},
		{`sha256:[0-9a-f]+`, "DIGEST"},
		{`  +`, "  "},
		{` +\n`, "\n"},
	} {
		text = regexp.MustCompile(m.pattern).ReplaceAllString(text, m.by)
	}
	if host, err := os.Hostname(); err == nil {
		text = strings.ReplaceAll(text, "  "+host+"  ", "  HOST  ")
	}
	return text
}

// enormous prints an experiment of the given size that is right but for that.
func enormous(size string) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	const begin = "workload: lifecycle\nfactors: {engine: [native]}\n"
	_, err = fmt.Print(begin, strings.Repeat("#", n-len(begin)-1), "\n")
	return err
}

// onTerminal runs a program with stdout and stderr on a terminal of 100
// columns, and copies what it writes there to stdout. Stdin is there too where
// something is typed.
func onTerminal(argv []string, typed []byte) error {
	terminal, end, err := openTerminal(100)
	if err != nil {
		return err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = end, end
	if typed != nil {
		cmd.Stdin = end
		if _, err := terminal.Write(typed); err != nil {
			return err
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := errors.Join(cmd.Start(), end.Close()); err != nil {
		return err
	}
	// EIO is how a terminal says that nobody has it open any more.
	if _, err := io.Copy(os.Stdout, terminal); err != nil && !errors.Is(err, syscall.EIO) {
		return err
	}
	return cmd.Wait()
}

// openTerminal makes a pseudo-terminal: what a program writes to end can be
// read from terminal.
func openTerminal(columns uint16) (terminal, end *os.File, err error) {
	terminal, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(terminal.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: columns})
	}
	if err == nil {
		end, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(err, terminal.Close())
	}
	return terminal, end, nil
}

// readOnly runs a program that sees a directory as a read-only file system.
// Taking permissions away would not stop root.
func readOnly(dir string, argv []string) error {
	const inside = "TARE_TEST_INSIDE"
	if os.Getenv(inside) == "" {
		cmd := exec.Command("/proc/self/exe", append([]string{dir}, argv...)...)
		cmd.Args[0] = os.Args[0]
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = ownMounts()
		return cmd.Run()
	}
	if err := os.Unsetenv(inside); err != nil {
		return err
	}
	if err := bindReadOnly(dir); err != nil {
		return fmt.Errorf("make %s read-only: %w", dir, err)
	}
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return syscall.Exec(program, argv, os.Environ())
}

// ownMounts makes a process with mounts of its own.
func ownMounts() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
	}
	return a
}

func bindReadOnly(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}
