package cli_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
)

// usedDisk is how much is in use of the file systems of some directories, each counted once.
func usedDisk(dirs ...string) (bytes int64) {
	seen := map[uint64]bool{}
	for _, dir := range dirs {
		var one unix.Stat_t
		var all unix.Statfs_t
		if unix.Stat(dir, &one) != nil || unix.Statfs(dir, &all) != nil || seen[one.Dev] {
			continue // it is not here, or was counted
		}
		seen[one.Dev] = true
		bytes += int64(all.Blocks-all.Bfree) * all.Frsize
	}
	return bytes
}

// wantPrograms wants every trial of a whole host to have been built and composed by programs that are named.
func wantPrograms(t *testing.T, run *bench.Run) {
	t.Helper()
	if _, err := exec.LookPath("docker-compose"); err != nil {
		t.Logf("no compose program is looked for: %v", err)
		return
	}
	up := slices.IndexFunc(run.Header.Metrics, func(m bench.Metric) bool { return m.Name == "compose.up" })
	for _, s := range run.Samples {
		if v, ok := s.Value(up); !ok || v <= 0 {
			t.Errorf("trial %d: compose up took %v, %v", s.Trial.Seq, v, ok)
		}
		if s.Applied == nil || s.Applied.Builder == "" || !strings.Contains(s.Applied.Maker, "compose") {
			t.Errorf("trial %d was built and composed by what is not named: %+v", s.Trial.Seq, s.Applied)
		}
	}
}

// The quick form of a whole host takes at most 2 GB of disk while it runs, and nothing after it. Other work
// on this machine is in the number.
func TestHostTakesLittleDisk(t *testing.T) {
	require(t, "docker")
	if testing.Short() {
		return // TestBuiltinExperiments runs it with less
	}
	p := newTestEnv(t)
	places := []string{p.dir, os.TempDir(), "/", "/var/lib/docker", "/var/lib/containerd"}
	before := usedDisk(places...)
	// Each part measures for longer than in the default form: beside other tests, a short time may see nothing.
	r := p.begin(t, "run", "host", "--engine", "docker", "--blocks", "2", "--precision", "off", "--param", "cpu.time=500ms",
		"--param", "memory.time=500ms", "--param", "disk.time=500ms", "--param", "net-throughput.time=1s")
	most, ended := before, make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			most = max(most, usedDisk(places...))
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	result := r.end(t)
	close(ended)
	<-watched
	if result.code != 0 {
		t.Fatalf("exit code %d\n%s", result.code, result.stderr)
	}
	wantPrograms(t, p.last(t))
	t.Logf("it took at most %d MB of disk, and leaves %d MB", (most-before)>>20, (usedDisk(places...)-before)>>20)
	if took := most - before; took > 2e9 {
		t.Errorf("it took %d bytes of disk, want 2 GB at most", took)
	}
	p.nothingLeft(t)
}
