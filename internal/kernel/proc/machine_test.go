package proc

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseMemory(t *testing.T) {
	nan := math.NaN()
	tests := []struct {
		name, text string
		want       MemoryUse
	}{
		{
			"everything",
			"MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    600 kB\nSUnreclaim: 10 kB\nKernelStack: 2 kB\n" +
				"PageTables: 3 kB\nSecPageTables: 4 kB\nPercpu: 5 kB\n",
			MemoryUse{1000 << 10, 600 << 10, 24 << 10},
		},
		{"an older kernel", "MemTotal: 8 kB\nSUnreclaim: 1 kB\nPageTables: 1 kB\n", MemoryUse{8 << 10, nan, 2 << 10}},
		{"nothing", "", MemoryUse{nan, nan, nan}},
		{"no numbers", "MemTotal: x kB\nMemAvailable:\n", MemoryUse{nan, nan, nan}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, parseMemory([]byte(tt.text)), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// Each thread of a process has its own counts.
func TestOnCPUOf(t *testing.T) {
	root := t.TempDir()
	for thread, text := range map[string]string{"7": "1500000000 3 10\n", "8": "500000000 9 5\n"} {
		dir := filepath.Join(root, "proc/7/task", thread)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "schedstat"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := OnCPUOf(root, 7)
	if diff := cmp.Diff(map[int]OnCPU{7: {1.5, 10}, 8: {0.5, 5}}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := os.Remove(filepath.Join(root, "proc/7/task/8/schedstat")); err != nil {
		t.Fatal(err)
	}
	if got, err := OnCPUOf(root, 7); err != nil || !math.IsNaN(got[8].Time) || !math.IsNaN(got[8].Times) {
		t.Errorf("of a kernel that does not count: %+v, %v; want NaN", got, err)
	}
	if _, err := OnCPUOf(root, 9); !os.IsNotExist(err) {
		t.Errorf("no such process: %v", err)
	}
	if own, err := OnCPUOf("/", os.Getpid()); err != nil || !(own[os.Getpid()].Time > 0 && own[os.Getpid()].Times > 0) {
		t.Errorf("this process: %+v, %v", own, err)
	}
	for _, text := range []string{"", "1 2", "a b c"} {
		if got := parseOnCPU([]byte(text)); !math.IsNaN(got.Time) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
