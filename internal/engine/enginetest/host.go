package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

// This file reads the host's own files, so that the suite need not trust the engine.

// processes are those of a container, or of a run, that the host can see: those that have the token in
// their environment, with which the first one was started.
func (s *suite) processes(t *testing.T, token, id string) []int {
	t.Helper()
	pids := processesWith(t, "environ", token)
	if s.Sandboxed {
		pids = append(pids, processesWith(t, "cmdline", id)...)
	}
	return pids
}

// processes are the container's.
func (x *trial) processes(t *testing.T) []int {
	t.Helper()
	return x.suite.processes(t, x.token, x.ID())
}

// processesWith returns the processes with that text in a file of theirs.
func processesWith(t *testing.T, file, token string) []int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	noError(t, err)
	var pids []int
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !bytes.Contains(text, []byte(token)) {
			continue // it has ended, or belongs to another user
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// pid is the host's number of the container's first process.
func (x *trial) pid(t *testing.T) int {
	t.Helper()
	if x.suite.Sandboxed {
		return x.sandbox(t)
	}
	pids := x.processes(t)
	if len(pids) == 0 {
		t.Fatal("no process of the container can be found on the host")
	}
	return pids[0]
}

// sandbox is the process that stands for the first one.
func (x *trial) sandbox(t *testing.T) int {
	t.Helper()
	e, ok := bench.As[bench.ProcessReporter](x.suite.engine)
	if !ok {
		t.Fatal("a sandboxed engine must be a bench.Overseer")
	}
	pid, err := e.Pid(t.Context(), x.Container)
	if err != nil {
		t.Fatalf("Pid: %v", err)
	}
	return pid
}

// status returns a field of the first process's /proc/PID/status.
func (x *trial) status(t *testing.T, field string) string {
	t.Helper()
	return statusOf(t, x.pid(t), field)
}

func statusOf(t *testing.T, pid int, field string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	noError(t, err)
	return fieldOf(t, string(text), field)
}

// fieldOf returns a field of the text of a status file.
func fieldOf(t *testing.T, status, field string) string {
	t.Helper()
	for line := range strings.Lines(status) {
		if key, value, _ := strings.Cut(line, ":"); key == field {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("the status of a process has no field %s: %.300q", field, status)
	return ""
}

// namespace is the inode of a namespace of this process.
func namespace(t *testing.T, kind string) uint64 {
	t.Helper()
	link, err := os.Readlink("/proc/self/ns/" + kind)
	noError(t, err)
	inode, err := strconv.ParseUint(strings.Trim(link, kind+":[]"), 10, 64)
	noError(t, err)
	return inode
}

// requireGone checks that nothing of a container is left: no process, and no cgroup.
func (s *suite) requireGone(t *testing.T, x *trial) {
	t.Helper()
	if s.Simulated || x.Container == nil {
		return
	}
	if x.token != "" {
		if pids := s.processes(t, x.token, x.ID()); len(pids) > 0 {
			t.Errorf("left after Remove: processes %d", pids)
		}
	}
	for _, dir := range groups(t, x.ID()) {
		t.Errorf("left after Remove: cgroup %s", dir)
	}
}

// nothingLeft checks that only the directory of a site's run is left on the host: no process, no
// mount, no cgroup.
func (s *suite) nothingLeft(t *testing.T, env Env) {
	t.Helper()
	if s.Simulated {
		return
	}
	if pids := s.processes(t, tokenOf(env), env.Run); len(pids) > 0 {
		t.Errorf("left on the host: processes %d", pids)
	}
	for _, mount := range mounts(t, env) {
		t.Errorf("left on the host: mount %s", mount)
	}
	for _, dir := range groups(t, env.Run) {
		t.Errorf("left on the host: cgroup %s", dir)
	}
	for _, name := range devices(t, env.Run) {
		t.Errorf("left on the host: interface %s", name)
	}
}

// devices lists the network interfaces that are marked with a run.
func devices(t *testing.T, run string) (names []string) {
	t.Helper()
	files, err := filepath.Glob("/sys/class/net/*/ifalias")
	noError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), run) { // otherwise it has disappeared meanwhile
			names = append(names, filepath.Base(filepath.Dir(file)))
		}
	}
	return names
}

// traces lists everything of a site's run that is on the host now.
func (s *suite) traces(t *testing.T, env Env) []string {
	t.Helper()
	found := files(t, env.Dir)
	if s.Simulated {
		return found
	}
	for _, pid := range s.processes(t, tokenOf(env), env.Run) {
		found = append(found, fmt.Sprintf("process %d", pid))
	}
	found = append(found, mounts(t, env)...)
	found = append(found, devices(t, env.Run)...)
	return append(found, groups(t, env.Run)...)
}

// tokenOf is how the tokens of all containers of a site begin.
func tokenOf(env Env) string { return "TARE_TEST=" + env.Run + "." }

// mounts lists the mounts below a site's directory, or named after its run.
func mounts(t *testing.T, env Env) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	noError(t, err)
	var found []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, env.Dir) || strings.Contains(line, env.Run) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// groups lists the cgroups whose name contains id.
func groups(t *testing.T, id string) []string {
	t.Helper()
	h, err := cgroup.Detect("/")
	if err != nil {
		return nil
	}
	tops, err := h.Dirs("/")
	noError(t, err)
	var found []string
	for _, top := range tops {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				return nil // other groups come and go
			}
			if err == nil && d.IsDir() && strings.Contains(d.Name(), id) {
				found = append(found, path)
			}
			return err
		})
		noError(t, err)
	}
	return found
}
