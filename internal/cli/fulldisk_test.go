package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
)

// mountSmall mounts a file system of so many bytes.
func mountSmall(t *testing.T, dir string, size int64) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a file system")
	}
	err := os.MkdirAll(dir, 0o711)
	if err == nil {
		err = unix.Mount("tare-test", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// fillUp writes a file until there is no room for another byte.
func fillUp(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if closed := f.Close(); !errors.Is(err, syscall.ENOSPC) || closed != nil {
		t.Fatal(err, closed)
	}
}

// A host whose disk becomes full while its records are written keeps nothing from the client: all that was measured
// there is stored, and once there is space both hosts go on.
func TestFullDiskOnHost(t *testing.T) {
	t.Parallel() // nothing is measured
	h := newHosts(t, "a", "b")
	program, err := exec.LookPath("tare")
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(program) // which is copied there
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(h.dir, "b", ".cache")
	mountSmall(t, cache, info.Size()+2<<20)
	p := h.client(t)
	r := p.begin(t, on("a,b", "--blocks", "120")...)
	p.awaitOn(t, r, 2, 10)
	filler := filepath.Join(cache, "filler")
	fillUp(t, filler)
	result := r.end(t)
	if result.code != 1 {
		t.Errorf("exit code %d, want 1", result.code)
	}
	for _, want := range []string{
		"host b: ", "run.jsonl: no space left on device", "free some space on b", "tare resume",
	} {
		if !strings.Contains(strings.Join(strings.Fields(result.stderr), " "), want) {
			t.Errorf("it does not say %q:\n%s", want, result.stderr)
		}
	}
	before := p.byHost(t)
	h.nothingLeft(t)
	p.awaitNothingLeft(t)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	p.must(t, "resume")
	after := p.byHost(t)
	wantTogether(t, after, "a", "b")
	for i, r := range before {
		if n := len(r.Samples); n < 10 || r.End != nil || after[i].Samples[n-1].Began != r.Samples[n-1].Began {
			t.Errorf("run %s: its first %d trials are not those from before", r.Header.ID, n)
		}
	}
	h.nothingLeft(t)
}

// A run's own directory is too small for what is to be built: that is said, with where and what to do.
func TestFullDiskOfState(t *testing.T) {
	t.Parallel() // it asserts no time
	engines := usable(t, "docker", "podman")
	if len(engines) == 0 {
		t.Skip("no engine builds images here")
	}
	p := newTestEnv(t)
	mountSmall(t, p.state, 32<<20)
	result := p.tare(t, "run", "build", "--engine", engines[0], "--size", "64MiB", "--param", "files=4", "--blocks", "1",
		"--warmup", "0", "--washout", "off", "--precision", "off", "--no-control")
	said := strings.Join(strings.Fields(result.stdout+result.stderr), " ")
	for _, want := range []string{"build/0/context/file-", "no space left on device", "free some space there", "--state DIR"} {
		if result.code == 0 || !strings.Contains(said, want) {
			t.Errorf("exit code %d, and %q is not said:\n%s\n%s", result.code, want, result.stdout, result.stderr)
		}
	}
	if dirs := p.directories(t); len(dirs) > 0 {
		t.Errorf("left: %q", dirs)
	}
}

// An engine's disk becomes full: what was measured before stays, the failure says where space is needed, and once
// there is some nothing is left.
func TestFullDiskOfEngine(t *testing.T) {
	if testing.Short() {
		return // it waits for an engine that has no space, for a minute
	}
	require(t, "podman")
	for name, args := range map[string][]string{
		"build":   {"build", "--param", "files=4", "--size", "2MiB", "--param", "steps=2"},
		"compose": {"compose", "--param", "services=2"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestEnv(t)
			graph := filepath.Join(p.dir, "graph")
			mountSmall(t, graph, 96<<20)
			config := p.write(t, "storage.conf", fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = %q\nrunroot = %q\n",
				graph, filepath.Join(p.dir, "podman")))
			t.Cleanup(func() { unmountBelow(t, graph) })
			p.env = append(p.env, "CONTAINERS_STORAGE_CONF="+config)
			r := p.begin(t, append([]string{
				"run", "--engine", "podman", "--blocks", "30", "--warmup", "0", "--washout", "off", "--precision", "off",
				"--no-control",
			}, args...)...)
			p.await(t, r, 2)
			filler := filepath.Join(graph, "filler")
			fillUp(t, filler)
			result := r.end(t)
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			wantFullDisk(t, p.last(t), graph)
			if result.code == 0 {
				t.Errorf("exit code 0\n%s", result.stdout)
			}
			p.must(t, "clean") // what could not be removed without space
			p.awaitNothingLeft(t)
			for _, list := range []string{"ps --all --external --quiet", "images --all --quiet"} {
				cmd := exec.Command("podman", strings.Fields(list)...)
				cmd.Env = append(os.Environ(), p.env...)
				if out, err := cmd.Output(); err != nil || len(out) > 0 {
					t.Errorf("left in podman %s: %v\n%s", list, err, out)
				}
			}
		})
	}
}

// wantFullDisk wants the first trials to be measured, and one that failed because a directory's disk was full.
func wantFullDisk(t *testing.T, r *bench.Run, dir string) {
	t.Helper()
	for _, s := range r.Samples[:2] {
		if s.Outcome != bench.OK {
			t.Errorf("trial %d, before the disk was full: %s: %s", s.Trial.Seq, s.Outcome, s.Reason)
		}
	}
	for _, s := range r.Samples {
		if s.Outcome == bench.Failed && strings.Contains(strings.ToLower(s.Reason), "no space left on device") &&
			strings.Contains(s.Reason, "free some space where podman keeps what it has, in "+dir) {
			return
		}
		if s.Outcome.Failure() {
			t.Logf("trial %d: %s: %s", s.Trial.Seq, s.Outcome, s.Reason)
		}
	}
	t.Errorf("of %d trials none says what to do about the full disk", len(r.Samples))
}

// unmountBelow unmounts what an engine has mounted below a directory.
func unmountBelow(t *testing.T, dir string) {
	t.Helper()
	for _, point := range slices.Backward(mountsBelow(t, dir)) {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
}
