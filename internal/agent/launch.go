package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Launch says how task "launch" starts a program that keeps data. It is the same in every
// container and for a plain process: a directory of data is copied, root is given up, and then the
// program takes the process over. The zero value of a field means "leave that as it is".
type Launch struct {
	Template string // directory that is copied to Target; it is only read
	Target   string // directory to make, absolute; its parent exists
	// User is who the program runs as if the launcher is root, as "UID:GID" in numbers.
	// The copy belongs to that user. Another user than root does not change.
	User  string
	CPUs  string // that the program may run on, in the kernel's list format
	Files uint64 // limit of open files, soft and hard; less where the hard limit is lower
	OOM   string // oom_score_adj, if the kernel allows that one
	Cold  bool   // the copy leaves the page cache, too; the template always does
	// Wait has the launcher wait for LaunchSignal before it executes the program.
	Wait bool
}

// LaunchSignal makes a launcher that waits execute its program. Send it once Prepared has
// been printed: before that it ends the launcher.
const LaunchSignal = syscall.SIGUSR1

// Argv returns the arguments of a launcher, whose file is agent, for a program with its arguments.
func (l Launch) Argv(agent string, program ...string) []string {
	argv := []string{agent, "launch"}
	add := func(key, value string) {
		if value != "" {
			argv = append(argv, key+"="+value)
		}
	}
	add("template", l.Template)
	add("target", l.Target)
	add("user", l.User)
	add("cpus", l.CPUs)
	if l.Files > 0 {
		add("files", strconv.FormatUint(l.Files, 10))
	}
	add("oom", l.OOM)
	if l.Cold {
		add("cold", "yes")
	}
	if l.Wait {
		add("wait", "yes")
	}
	return append(append(argv, LoadSeparator), program...)
}

// LaunchedBy returns the program that a launcher with these arguments executes; false if they are not
// a launcher's.
func LaunchedBy(argv []string) (program string, ok bool) {
	if len(argv) < 2 || argv[1] != "launch" {
		return "", false
	}
	_, words, ok := parseLaunchArgs(argv[2:])
	if !ok {
		return "", false
	}
	return words[0], true
}

// Prepared says what a launcher has done. It is the first line that a launcher prints to standard
// output. Times are CLOCK_MONOTONIC.
type Prepared struct {
	Began  time.Duration `json:"began_ns"`  // before anything was prepared
	Copied time.Duration `json:"copied_ns"` // the last byte of the copy was written
	Synced time.Duration `json:"synced_ns"` // syncfs of the copy's file system has returned
	Bytes  int64         `json:"bytes"`     // of the copied files
	Copies int           `json:"copies"`    // files that were copied
	UID    int           `json:"uid"`       // of the program
	GID    int           `json:"gid"`       // of the program
	CPUs   string        `json:"cpus"`      // that the program may run on
	Files  uint64        `json:"files"`     // limit of open files
	OOM    int           `json:"oom"`       // oom_score_adj
}

// Executing is the second and last line that a launcher prints to standard output, just before it
// executes its program.
type Executing struct {
	At time.Duration `json:"at_ns"` // CLOCK_MONOTONIC
}

// ErrLaunch is wrapped by the errors of reading what a launcher printed.
var ErrLaunch = errors.New("not the report of a launcher")

const (
	preparedPrefix  = "tare-launch v1 prepared "
	executingPrefix = "tare-launch v1 executing "
)

// ParsePrepared reads a launcher's first line.
func ParsePrepared(line string) (p Prepared, err error) {
	err = parseLaunch(line, preparedPrefix, &p)
	return p, err
}

// ParseExecuting reads a launcher's second line.
func ParseExecuting(line string) (e Executing, err error) {
	err = parseLaunch(line, executingPrefix, &e)
	return e, err
}

func parseLaunch(line, prefix string, into any) error {
	text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), prefix)
	if !ok {
		return fmt.Errorf("%w: %.80q", ErrLaunch, line)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("%w: %.80q: %w", ErrLaunch, line, err)
	}
	return nil
}

func printLaunch(w io.Writer, prefix string, report any) error {
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, prefix+string(text)+"\n")
	return err
}
