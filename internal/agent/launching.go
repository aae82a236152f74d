package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/affinity"
)

// launch is the task "launch". Some of its settings belong to one thread, so it stays on that thread
// until the end.
func launch(args []string, stdout, stderr io.Writer) int {
	l, program, ok := parseLaunchArgs(args)
	if !ok {
		return exitUsage
	}
	runtime.LockOSThread()
	word := make(chan os.Signal, 1)
	signal.Notify(word, LaunchSignal, syscall.SIGTERM)
	done, err := l.prepare()
	if err == nil {
		err = printLaunch(stdout, preparedPrefix, done)
	}
	if err == nil && l.Wait && <-word == syscall.SIGTERM {
		return exitSIGTERM
	}
	if err == nil {
		err = printLaunch(stdout, executingPrefix, Executing{At: monotonic()})
	}
	if err == nil {
		err = fmt.Errorf("execute %s: %w", program[0], syscall.Exec(program[0], program, os.Environ()))
	}
	return result(stderr, "launch", err)
}

// sendWord is the task "word": it sends LaunchSignal to the first process of its PID namespace, for
// engines that cannot send a signal.
func sendWord(args []string, _, stderr io.Writer) int {
	if len(args) != 0 {
		return exitUsage
	}
	return result(stderr, "word", syscall.Kill(1, LaunchSignal))
}

// parseLaunchArgs reads the arguments that Launch.Argv makes.
func parseLaunchArgs(args []string) (l Launch, program []string, ok bool) {
	for i, arg := range args {
		if arg == LoadSeparator {
			program = args[i+1:]
			ok = len(program) > 0 && filepath.IsAbs(program[0]) && (l.Template == "" || l.Target != "")
			return l, program, ok
		}
		if !l.set(arg) {
			break
		}
	}
	return l, nil, false
}

// set reads one option.
func (l *Launch) set(arg string) (ok bool) {
	key, value, _ := strings.Cut(arg, "=")
	yes, err := value == "yes", error(nil)
	switch key {
	case "template":
		l.Template = value
	case "target":
		l.Target = value
	case "user":
		l.User = value
		_, _, err = l.user()
	case "cpus":
		l.CPUs = value
		_, err = affinity.Parse(value)
	case "files":
		l.Files, err = strconv.ParseUint(value, 10, 32)
	case "oom":
		l.OOM = value
		_, err = strconv.ParseInt(value, 10, 16)
	case "cold":
		l.Cold = yes
	case "wait":
		l.Wait = yes
	default:
		return false
	}
	return value != "" && err == nil && (yes || key != "cold" && key != "wait")
}

// user returns who the program runs as; this process's own user unless it is root.
func (l *Launch) user() (uid, gid int, err error) {
	u, g, _ := strings.Cut(l.User, ":")
	uid64, err1 := strconv.ParseUint(u, 10, 31)
	gid64, err2 := strconv.ParseUint(g, 10, 31)
	if err := errors.Join(err1, err2); err != nil && l.User != "" {
		return 0, 0, err
	}
	if l.User == "" || os.Geteuid() != 0 {
		return os.Geteuid(), os.Getegid(), nil
	}
	return int(uid64), int(gid64), nil
}

// prepare does everything except for executing the program. Its error names the step that failed.
func (l *Launch) prepare() (done Prepared, err error) {
	done.Began = monotonic()
	for _, step := range []struct {
		name string
		do   func(*Prepared) error
	}{
		{"copy " + l.Template + " to " + l.Target, l.copyData},
		{"pin to CPUs " + l.CPUs, l.pin},
		{"limit open files", l.limitFiles},
		{"adjust oom_score", l.adjustOOM},
		{"become user " + l.User, l.becomeUser},
	} {
		if err := step.do(&done); err != nil {
			return done, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	// What is new gets the same modes everywhere.
	syscall.Umask(0o22)
	return done, nil
}

func (l *Launch) pin(done *Prepared) error {
	if l.CPUs != "" {
		cpus, err := affinity.Parse(l.CPUs)
		if err != nil {
			return err
		}
		var set unix.CPUSet
		for _, cpu := range cpus {
			set.Set(cpu)
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return err
		}
	}
	done.CPUs = affinity.Format(affinity.Allowed())
	return nil
}

// limitFiles sets both limits, because a program may raise the soft one by itself.
func (l *Launch) limitFiles(done *Prepared) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
		return err
	}
	if l.Files > 0 {
		now.Max = min(now.Max, l.Files)
		now.Cur = now.Max
	}
	done.Files = now.Cur
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now)
}

// adjustOOM sets the process's oom_score_adj. The kernel may refuse a value below the present one,
// and /proc may be read-only: then the value stays, and Prepared tells it.
func (l *Launch) adjustOOM(done *Prepared) (err error) {
	const file = "/proc/self/oom_score_adj"
	if l.OOM != "" {
		err = os.WriteFile(file, []byte(l.OOM), 0)
		if !errors.Is(err, os.ErrPermission) && !errors.Is(err, syscall.EROFS) && err != nil {
			return err
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	done.OOM, err = strconv.Atoi(string(bytes.TrimSpace(text)))
	return err
}

// becomeUser gives up root for good: in all threads, and with all capabilities.
func (l *Launch) becomeUser(done *Prepared) (err error) {
	if done.UID, done.GID, err = l.user(); err != nil || os.Geteuid() != 0 || l.User == "" {
		return err
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("setgroups: %w", err)
	}
	if err := syscall.Setgid(done.GID); err != nil {
		return fmt.Errorf("setgid: %w", err)
	}
	if err := syscall.Setuid(done.UID); err != nil {
		return fmt.Errorf("setuid: %w", err)
	}
	return nil
}
