package disk_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/workload/disk"
	"github.com/tare-bench/tare/internal/workload/localtest"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// measure runs two trials of one cell. In the short form a tool has one. A disk that others use too can stand still for
// longer than a trial reads or writes: then it says so, and is measured again.
func measure(t *testing.T, e bench.Engine, spec bench.Spec, params map[string]string) []bench.Sample {
	t.Helper()
	all, n := map[string]string{"size": "4MiB", "depth": "4", "time": "200ms"}, 2
	if testing.Short() && params["tool"] != "" {
		n = 1
	}
	maps.Copy(all, params)
	for tries := 1; ; tries++ {
		samples := workloadtest.Trials{Workload: disk.New(), Engine: e, Spec: spec, Params: all, N: n}.Run(t)
		stood := func(s bench.Sample) bool { return strings.Contains(s.Reason, "too few for a median") }
		if tries == 3 || !slices.ContainsFunc(samples, stood) {
			return samples
		}
	}
}

// figures are the metrics beside percentiles that a pattern has.
func figures() map[string]string {
	return map[string]string{
		"randread": "disk.randread.iops", "randwrite": "disk.randwrite.iops",
		"read": "disk.read.rate", "write": "disk.write.rate", "fsync": "disk.fsync.p50",
	}
}

// complete sees that samples succeeded, have what these patterns give, and were
// made of the same thing.
func complete(t *testing.T, samples []bench.Sample, patterns ...string) {
	t.Helper()
	for _, s := range samples {
		var found []string
		if s.Outcome != bench.OK {
			t.Fatalf("%s: %s: %s", s.Outcome, s.Operation, s.Reason)
		}
		for _, d := range s.Distributions {
			found = append(found, d.Metric)
		}
		v := workloadtest.Values(disk.New(), s)
		for _, p := range patterns {
			for _, name := range []string{"disk." + p + ".p50", figures()[p]} {
				if v[name] <= 0 {
					t.Errorf("%s = %v", name, v[name])
				}
			}
			if !slices.Contains(found, "disk."+p) {
				t.Errorf("no distribution of %s", p)
			}
		}
	}
	if diff := cmp.Diff(samples[0].Applied, samples[len(samples)-1].Applied); diff != "" {
		t.Errorf("applied to the last (-first +last):\n%s", diff)
	}
}

// openNative returns an engine whose data lies below a directory of the test,
// which is to be empty at the end.
func openNative(t *testing.T) (e bench.Engine, data string) {
	t.Helper()
	env := enginetest.NewEnv(t, imagetest.Library(t))
	e = native.New(native.Config{Name: "native", Run: env.Run, Dir: env.Dir, Images: env.Images})
	data = t.TempDir()
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
		_ = filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				t.Errorf("left behind: %s, %v", path, err)
			}
			return nil
		})
	})
	return e, data
}

func TestNative(t *testing.T) {
	e, data := openNative(t)
	samples := measure(t, e, bench.Spec{Data: data}, nil)
	complete(t, samples, "randread", "read", "randwrite", "write", "fsync")
	if len(samples[0].Notes) > 0 && !slices.Contains(samples[0].Notes, disk.NoteNotADisk) {
		t.Errorf("notes %v", samples[0].Notes)
	}
}

// TestAuto says which way was taken where it was left open.
func TestAuto(t *testing.T) {
	e, data := openNative(t)
	s := measure(t, e, bench.Spec{Data: data}, map[string]string{"io": "auto", "patterns": "randread"})[0]
	ways := []string{disk.NoteIOUring, disk.NoteIOLibaio, disk.NoteIOThreads}
	if s.Outcome != bench.OK || !slices.ContainsFunc(s.Notes, func(n string) bool { return slices.Contains(ways, n) }) {
		t.Errorf("%s %s, notes %v, want one of %v", s.Outcome, s.Reason, s.Notes, ways)
	}
}

func TestFIO(t *testing.T) {
	needFIO(t)
	e, data := openNative(t)
	span := "1s"
	if testing.Short() {
		span = "500ms"
	}
	complete(t, measure(t, e, bench.Spec{Data: data}, map[string]string{"tool": "fio", "time": span}), "randread", "read",
		"randwrite", "write", "fsync")
}

func needFIO(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("fio"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("install fio to test with it")
	}
}

// TestNoFIO names the package.
func TestNoFIO(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	task := bench.Task{Engine: enginetest.NewFake(enginetest.FakeConfig{}), Params: map[string]string{"tool": "fio"}}
	if err := disk.New().Check(t.Context(), task); !errors.Is(err, bench.ErrUnsupported) ||
		!strings.Contains(err.Error(), "install package fio") {
		t.Errorf("%v", err)
	}
}

// TestTooLarge refuses a file before it is written, also where fio is to.
func TestTooLarge(t *testing.T) {
	for _, tool := range []string{"", "fio"} {
		if tool != "" {
			needFIO(t)
		}
		e, data := openNative(t)
		s := measure(t, e, bench.Spec{Data: data}, map[string]string{"size": "900GiB", "tool": tool})[0]
		if s.Outcome != bench.Failed ||
			!strings.Contains(s.Reason, "not enough space: the test file needs 900 GiB, and 45 GiB must stay free") {
			t.Errorf("tool %q: %s %s", tool, s.Outcome, s.Reason)
		}
	}
}

// TestDocker goes through every storage, with the load and with fio.
func TestDocker(t *testing.T) {
	e := localtest.Docker(t)
	for _, storage := range []string{"", "layer", "volume", "bind", "tmpfs"} {
		for _, tool := range []string{"", "fio"} {
			if testing.Short() && tool != "" && storage != "" && storage != "tmpfs" {
				continue // what differs between storages is the same for every tool
			}
			t.Run(fmt.Sprintf("%s %s", storage, tool), func(t *testing.T) {
				if tool != "" {
					needFIO(t)
				}
				spec := bench.Spec{Storage: storage}
				if storage == "bind" {
					spec.Data = t.TempDir()
				}
				samples := measure(t, e, spec, map[string]string{"tool": tool, "patterns": "randread,randwrite"})
				complete(t, samples, "randread", "randwrite")
				for _, s := range samples {
					if on := strings.Fields(s.Applied.Data); len(on) != 2 || storage != "" && on[0] != storage {
						t.Errorf("data on %q, want %q and a file system", s.Applied.Data, storage)
					}
				}
				notes := slices.Sorted(slices.Values(samples[0].Notes))
				if want := []string{disk.NoteBufferedIO, disk.NoteNotADisk}; storage == "tmpfs" && !slices.Equal(notes, want) {
					t.Errorf("notes %v, want %v", notes, want)
				}
			})
		}
	}
}

// TestDirectRefused insists where nothing can be done.
func TestDirectRefused(t *testing.T) {
	e := localtest.Docker(t)
	s := measure(t, e, bench.Spec{Storage: "tmpfs"}, map[string]string{"direct": "yes"})[0]
	if s.Outcome != bench.Failed || !strings.Contains(s.Reason, "direct I/O refused by tmpfs") {
		t.Errorf("%s %s", s.Outcome, s.Reason)
	}
}

// TestCheck refuses what cannot be.
func TestCheck(t *testing.T) {
	w := disk.New()
	params := map[string]string{}
	for _, p := range w.Params() {
		if err := p.Valid(p.Default); err != nil {
			t.Errorf("the default of %s: %v", p.Name, err)
		}
		params[p.Name] = p.Default
	}
	task := bench.Task{Engine: enginetest.NewFake(enginetest.FakeConfig{}), Params: params}
	if err := w.Check(t.Context(), task); err != nil {
		t.Error(err)
	}
	task.Spec.Image = "oci:somewhere"
	if err := w.Check(t.Context(), task); !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("an image: %v", err)
	}
	task.Spec.Image = ""
	params["size"] = "64KiB"
	if err := w.Check(t.Context(), task); err == nil || !strings.Contains(err.Error(), "smaller depth") {
		t.Errorf("a small file: %v", err)
	}
}

// TestMetrics declares whatever a report can have.
func TestMetrics(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range disk.New().Metrics() {
		if seen[m.Name] || m.Title == "" || m.Doc == "" {
			t.Errorf("%s is declared twice, or says nothing", m.Name)
		}
		seen[m.Name] = true
	}
}
