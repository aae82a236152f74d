package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Exec runs the runtime's exec, with a process like the container's first one except for its
// arguments. If the runtime itself fails, which its log tells, that is an error; any other status
// is the status of the process. Exec returns when no process can print to the outputs any more.
func (e *Engine) Exec(
	ctx context.Context, c bench.Container, argv []string, stdout, stderr io.Writer,
) (bench.Exit, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return bench.Exit{}, err
	}
	file, err := own.processFile(argv)
	if err != nil {
		return bench.Exit{}, err
	}
	x := &execution{container: own, name: "exec-" + strconv.FormatInt(own.execs.Add(1), 10), process: file}
	defer x.clear()
	return x.run(ctx, stdout, stderr)
}

// processFile returns the name of the file that describes the container's process with these
// arguments. The file is written once for all calls with the same arguments.
func (c *container) processFile(argv []string) (string, error) {
	key, err := json.Marshal(argv)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if name, ok := c.processes[string(key)]; ok {
		return name, nil
	}
	s, err := c.bundle.specification()
	if err != nil {
		return "", err
	}
	s.Process.Args = argv
	text, err := json.Marshal(s.Process)
	if err != nil {
		return "", err
	}
	name := c.bundle.path("process-" + strconv.Itoa(len(c.processes)) + ".json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return "", err
	}
	if c.processes == nil {
		c.processes = map[string]string{}
	}
	c.processes[string(key)] = name
	return name, nil
}

// specification reads the config.json that the runtime was given.
func (b *bundle) specification() (*specs.Spec, error) {
	text, err := proc.ReadFile(b.path("config.json"), 4<<20)
	if err != nil {
		return nil, err
	}
	var s specs.Spec
	return &s, json.Unmarshal(text, &s)
}

// An execution is one call of Exec.
type execution struct {
	container *container
	name      string // of its files in the bundle
	process   string // file
	outputs   [2]*pipe
	killed    bool // killInside killed the process inside
}

func (x *execution) path(suffix string) string { return x.container.bundle.path(x.name + suffix) }

// run runs the command. When ctx ends, it kills the process inside too.
func (x *execution) run(ctx context.Context, stdout, stderr io.Writer) (bench.Exit, error) {
	c := x.container
	files := [2]*os.File{c.host.null, c.host.null}
	stdout, stderr = bench.Outputs(stdout, stderr)
	for i, w := range []io.Writer{stdout, stderr} {
		if w == nil {
			continue
		}
		p, err := newPipe()
		if err != nil {
			return bench.Exit{}, err
		}
		p.copy(w)
		x.outputs[i], files[i] = p, p.w
	}
	args := append(c.globals(x.name+".log"), "exec", "--process", x.process)
	run, kill := run, c.killOrphans
	if c.host.dialect.sandbox {
		args = append(args, "--internal-pid-file", x.path(".pid"))
		run, kill = x.runInSandbox, x.killInside
	}
	args = append(args, c.bundle.id)
	err := run(ctx, c.host, files[0], files[1], args)
	if ctx.Err() != nil {
		return bench.Exit{}, errors.Join(fmt.Errorf("exec in %s: %w", c.bundle.id, context.Cause(ctx)), cleanUp(kill))
	}
	exit, err := x.result(args, err)
	if err != nil {
		// Some runtimes leave processes behind.
		return exit, errors.Join(err, cleanUp(kill))
	}
	return exit, x.drain(ctx)
}

// result distinguishes the status of the process from a failure of the runtime.
func (x *execution) result(args []string, err error) (bench.Exit, error) {
	var status *exec.ExitError
	if err == nil {
		return bench.Exit{}, nil
	}
	log := tail(x.path(".log"))
	if errors.As(err, &status) && status.Exited() && !failed(log) {
		return bench.Exit{Code: status.ExitCode()}, nil
	}
	return bench.Exit{}, commandFailure(append([]string{x.container.host.binary}, args...), err, log, nil)
}

// failed reports whether the last entry of a runtime's log is an error.
func failed(log []byte) bool {
	return slices.ContainsFunc(linesOf(log), func(line []byte) bool {
		var entry struct {
			Level string `json:"level"`
		}
		err := json.Unmarshal(line, &entry)
		return err != nil || slices.Contains([]string{"error", "fatal", "panic"}, string(bytes.ToLower([]byte(entry.Level))))
	})
}

// drain returns when all output has been copied.
func (x *execution) drain(ctx context.Context) error {
	var errs []error
	for _, p := range x.outputs {
		if p != nil {
			p.closeWrite()
			errs = append(errs, p.wait(ctx))
		}
	}
	return errors.Join(errs...)
}

// clear removes the files of this call.
func (x *execution) clear() {
	for _, p := range x.outputs {
		p.close()
	}
	for _, suffix := range []string{".log", ".pid"} {
		_ = os.Remove(x.path(suffix)) // otherwise the bundle's removal removes it
	}
}

// cleanUp kills the process inside, after the runtime's command has ended.
func cleanUp(kill func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), deleteLimit)
	defer cancel()
	return kill(ctx)
}

// killOrphans kills the container's processes that are children of this process, except the first
// one: the runtime that started them was killed. Processes of another Exec are not affected,
// because they are children of their runtime. killOrphans also collects the exit status, because an
// uncollected process would delay the report of the container's end.
func (c *container) killOrphans(ctx context.Context) error {
	first, err := c.initPID()
	if err != nil {
		return err
	}
	left, err := orphans(first.pid)
	if err != nil {
		return err
	}
	for _, p := range left {
		still := func() bool { now, err := proc.Find("/", p.PID); return err == nil && now.Start == p.Start }
		if err := cgroup.KillProcess(p.PID, still); err != nil {
			return err
		}
		for reap(p.PID) {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("process %d in %s was killed but has not ended: %w", p.PID, c.bundle.id,
					context.Cause(ctx))
			}
		}
	}
	return nil
}

// orphans lists the children of this process, dead ones too, that are in the PID namespace of a
// container's first process. It does not list that first process.
func orphans(first int) ([]proc.Process, error) {
	space, err := namespaceOf(first)
	if err != nil {
		return nil, nil // it has ended, and all others with it
	}
	all, err := proc.All("/")
	self := os.Getpid()
	return slices.DeleteFunc(all, func(p proc.Process) bool {
		if p.Parent != self || p.PID == first {
			return true
		}
		theirs, err := namespaceOf(p.PID)
		return err != nil || theirs != space
	}), err
}

func namespaceOf(pid int) (string, error) {
	return os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
}
