package cgroup_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

func detect(t *testing.T, tree string) *cgroup.Hierarchy {
	t.Helper()
	h, err := cgroup.Detect(filepath.Join("testdata", tree))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// copied copies a captured tree to where the test may write.
func copied(t *testing.T, tree string) (*cgroup.Hierarchy, string) {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(filepath.Join("testdata", tree))); err != nil {
		t.Fatal(err)
	}
	h, err := cgroup.Detect(root)
	if err != nil {
		t.Fatal(err)
	}
	return h, root
}

func TestDetect(t *testing.T) {
	for _, test := range []struct {
		tree        string
		version     cgroup.Version
		controllers []string
	}{
		{"v1", cgroup.V1, strings.Fields("blkio cpu cpuacct cpuset devices memory net_cls net_prio pids")},
		{"v2", cgroup.V2, strings.Fields("blkio cpu cpuset hugetlb memory misc pids rdma")},
		{"hybrid", cgroup.Hybrid, strings.Fields("blkio cpu cpuacct cpuset devices freezer hugetlb memory pids")},
		{"container", cgroup.V2, strings.Fields("cpu memory pids")},
	} {
		h := detect(t, test.tree)
		if got := h.Version(); got != test.version {
			t.Errorf("%s: Version() = %s, want %s", test.tree, got, test.version)
		}
		for _, c := range test.controllers {
			if _, err := h.Dir("/", c); err != nil {
				t.Errorf("%s: %v", test.tree, err)
			}
		}
	}
}

func TestDetectNone(t *testing.T) {
	if _, err := cgroup.Detect("testdata/none"); !errors.Is(err, cgroup.ErrNone) {
		t.Errorf("without a mount: %v, want ErrNone", err)
	}
	if _, err := cgroup.Detect(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a proc: %v, want fs.ErrNotExist", err)
	}
}

func TestDir(t *testing.T) {
	for _, test := range []struct{ tree, controller, want string }{
		{"v1", "cpu", "sys/fs/cgroup/cpu,cpuacct/tare/x"},
		{"v1", "memory", "sys/fs/cgroup/memory/tare/x"},
		{"v2", "", "sys/fs/cgroup/tare/x"},
		{"v2", "blkio", "sys/fs/cgroup/tare/x"},
		{"v2", "cpuacct", "sys/fs/cgroup/tare/x"},
		{"hybrid", "", "sys/fs/cgroup/unified/tare/x"},
		{"hybrid", "cpuacct", "sys/fs/cgroup/cpuacct/tare/x"},
	} {
		got, err := detect(t, test.tree).Dir("/tare/x", test.controller)
		if want := filepath.Join("testdata", test.tree, test.want); got != want || err != nil {
			t.Errorf("%s: Dir(%q) = %s, %v, want %s", test.tree, test.controller, got, err, want)
		}
	}
	for _, test := range []struct {
		tree, controller string
	}{{"v1", ""}, {"v1", "io"}, {"v2", "freezer"}, {"container", "blkio"}} {
		if _, err := detect(t, test.tree).Dir("/x", test.controller); !errors.Is(err, cgroup.ErrController) {
			t.Errorf("%s: Dir(%q): %v, want ErrController", test.tree, test.controller, err)
		}
	}
}

func TestDirs(t *testing.T) {
	for tree, want := range map[string]int{"v1": 5, "v2": 1, "hybrid": 7} {
		if got, err := detect(t, tree).Dirs("/tare"); len(got) != want || err != nil {
			t.Errorf("%s: Dirs = %q, %v, want %d", tree, got, err, want)
		}
	}
}

func TestPaths(t *testing.T) {
	h := detect(t, "v2")
	for _, path := range []string{
		"", "tare", "/tare/", "/tare/../x", "/..", "//x", "/./x", "/a\nb", "/a\x00b",
		"/" + strings.Repeat("a", 256), strings.Repeat("/abcdefg", 200),
	} {
		if _, err := h.Dirs(path); !errors.Is(err, cgroup.ErrPath) {
			t.Errorf("Dirs(%.20q): %v, want ErrPath", path, err)
		}
	}
	for name, err := range map[string]error{
		"Create": h.Create("/", cgroup.Limits{}),
		"Set":    h.Set("/", cgroup.Limits{Pids: 1}),
		"Hold":   h.CreateEverywhere("/"),
		"Prune":  h.Prune("/"),
		"Kill":   h.Kill(t.Context(), "/"),
		"Remove": h.Remove(t.Context(), "/"),
	} {
		if !errors.Is(err, cgroup.ErrPath) {
			t.Errorf("%s of the root: %v, want ErrPath", name, err)
		}
	}
}

func TestPathOf(t *testing.T) {
	for _, test := range []struct {
		tree, controller, want string
		pid                    int
	}{
		{"v1", "cpuacct", "/user.slice", 0},
		{"v1", "name=systemd", "/user.slice/user-1000.slice/session-3.scope", 0},
		{"v2", "", "/tare/run1/a", 4242},
		{"hybrid", "memory", "/worker", 0},
		{"hybrid", "", "/", 0},
	} {
		got, err := detect(t, test.tree).PathOf(test.pid)
		if err != nil || got[test.controller] != test.want {
			t.Errorf("%s: PathOf(%d)[%q] = %q, %v, want %q", test.tree, test.pid, test.controller,
				got[test.controller], err, test.want)
		}
	}
	if _, err := detect(t, "v2").PathOf(99); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("PathOf a process that is gone: %v, want fs.ErrNotExist", err)
	}
}

func TestPathOfPart(t *testing.T) {
	// In a container only its own part of the hierarchy is mounted.
	h := detect(t, "container")
	for pid, want := range map[int]string{0: "/init", 7: "/", 8: "/docker/4f1dead"} {
		if got, err := h.PathOf(pid); got[""] != want || err != nil {
			t.Errorf("PathOf(%d) = %q, %v, want %q", pid, got[""], err, want)
		}
	}
}

func TestReadLimits(t *testing.T) {
	full := cgroup.Limits{CPUs: 0.5, CPUSet: "0-1,3", Memory: 256 << 20, Pids: 64}
	for _, test := range []struct {
		tree, path string
		want       cgroup.Limits
	}{
		{"v1", "/tare/run1/a", full},
		{"v1", "/tare/run1", cgroup.Limits{}},
		{"v2", "/tare/run1/a", full},
		{"v2", "/tare/run1/b", cgroup.Limits{CPUSet: "0-7"}},
		{"v2", "/", cgroup.Limits{}},
		{"hybrid", "/tare/run1/a", full},
	} {
		got, err := detect(t, test.tree).Limits(test.path)
		if err != nil {
			t.Errorf("%s: Limits(%s): %v", test.tree, test.path, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: Limits(%s) (-want +got):\n%s", test.tree, test.path, diff)
		}
	}
	if _, err := detect(t, "v2").Limits("/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Limits of no group: %v, want fs.ErrNotExist", err)
	}
}

func TestStat(t *testing.T) {
	v2 := cgroup.Stat{
		CPU: 48213 * time.Microsecond, ThrottledTime: 152034 * time.Microsecond, MemoryCurrent: 5271552, OOMKills: 1,
	}
	v1 := v2
	v1.CPU, v1.ThrottledTime = 48213077, 152034117
	for tree, want := range map[string]cgroup.Stat{"v1": v1, "hybrid": v1, "v2": v2} {
		got, err := detect(t, tree).Stat("/tare/run1/a")
		if err != nil {
			t.Errorf("%s: %v", tree, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: Stat (-want +got):\n%s", tree, diff)
		}
	}
}

func TestStatAbsent(t *testing.T) {
	got, err := detect(t, "v2").Stat("/tare/run1")
	if err != nil {
		t.Fatal(err)
	}
	const n = cgroup.Absent
	want := cgroup.Stat{n, n, n, n}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Stat without any file (-want +got):\n%s", diff)
	}
	if _, err := detect(t, "v2").Stat("/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat of no group: %v, want fs.ErrNotExist", err)
	}
}

func TestProcsAndList(t *testing.T) {
	// In the hybrid tree only version 2 knows the third process, and on
	// version 2 the 0 stands for one that is out of sight.
	for tree, want := range map[string][]int{"v1": {4242, 4250}, "v2": {4242, 4250}, "hybrid": {4242, 4250, 4251}} {
		got, err := detect(t, tree).Procs("/tare")
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: Procs = %v, %v, want %v", tree, got, err, want)
		}
	}
	got, err := detect(t, "v2").List("/tare/run1")
	if want := []string{"/tare/run1/a", "/tare/run1/b"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("List = %q, %v, want %q", got, err, want)
	}
	if got, err := detect(t, "v2").List("/none"); len(got) != 0 || err != nil {
		t.Errorf("List of no group = %q, %v", got, err)
	}
}

func TestCreateEnablesControllers(t *testing.T) {
	h, root := copied(t, "v2")
	if err := h.Create("/tare/c", cgroup.Limits{}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"sys/fs/cgroup/cgroup.subtree_control":           "+cpuset",
		"sys/fs/cgroup/tare/cgroup.subtree_control":      "+cpuset +cpu +io +memory +pids",
		"sys/fs/cgroup/tare/run1/cgroup.subtree_control": "cpuset cpu io memory pids\n",
	} {
		if got, err := os.ReadFile(filepath.Join(root, file)); string(got) != want || err != nil {
			t.Errorf("%s = %q, %v, want %q", file, got, err, want)
		}
	}
	if err := h.Create("/tare/c", cgroup.Limits{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create again: %v, want fs.ErrExist", err)
	}
}

func TestCreateUndone(t *testing.T) {
	h, root := copied(t, "v2")
	err := h.Create("/tare/c", cgroup.Limits{Memory: 1 << 20}) // plain directories get no memory.max
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Create: %v, want fs.ErrNotExist", err)
	}
	if _, err := os.Stat(filepath.Join(root, "sys/fs/cgroup/tare/c")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the group was left behind: %v", err)
	}
}

func TestSet(t *testing.T) {
	limits := cgroup.Limits{CPUs: 1.25, CPUSet: "2", Memory: 1 << 20, Pids: 5}
	for tree, want := range map[string]map[string]string{
		"v1": {
			"cpu,cpuacct/tare/run1/a/cpu.cfs_quota_us": "125000", "cpuset/tare/run1/a/cpuset.cpus": "2",
			"memory/tare/run1/a/memory.limit_in_bytes": "1048576", "pids/tare/run1/a/pids.max": "5",
		},
		"v2": {
			"tare/run1/a/cpu.max": "125000", "tare/run1/a/cpuset.cpus": "2",
			"tare/run1/a/memory.max": "1048576", "tare/run1/a/pids.max": "5",
		},
	} {
		h, root := copied(t, tree)
		if err := h.Set("/tare/run1/a", limits); err != nil {
			t.Fatal(err)
		}
		for file, want := range want {
			if got, err := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", file)); string(got) != want || err != nil {
				t.Errorf("%s: %s = %q, %v, want %q", tree, file, got, err, want)
			}
		}
	}
}

func TestSetRefuses(t *testing.T) {
	h, _ := copied(t, "v2")
	for _, l := range []cgroup.Limits{{CPUs: -1}, {CPUs: 0.001}, {CPUs: 1e9}, {Memory: -1}, {Pids: -1}} {
		if err := h.Set("/tare/run1/a", l); err == nil {
			t.Errorf("Set(%+v) succeeded", l)
		}
	}
	if err := detect(t, "container").Set("/x", cgroup.Limits{CPUSet: "0"}); !errors.Is(err, cgroup.ErrController) {
		t.Errorf("Set without the controller: %v, want ErrController", err)
	}
}

func TestWritable(t *testing.T) {
	h, root := copied(t, "v2")
	if err := h.Writable(); err != nil {
		t.Errorf("Writable: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(root, "sys")); err != nil {
		t.Fatal(err)
	}
	if err := h.Writable(); !errors.Is(err, cgroup.ErrDelegation) {
		t.Errorf("Writable without the mount: %v, want ErrDelegation", err)
	}
}
