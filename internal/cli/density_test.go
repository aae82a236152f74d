package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/report"
)

// limit lets all containers of the place's run have so much together, as soon as
// there is a group of theirs.
func (p *testEnv) limit(t *testing.T, r *process, l cgroup.Limits) {
	t.Helper()
	h, err := cgroup.Detect("/")
	if err != nil {
		t.Fatal(err)
	}
	p.await(t, r, 0)
	group := "/tare/" + p.last(t).Header.ID
	for until := time.Now().Add(testTimeout); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if err = h.Set(group, l); err == nil {
			return
		}
		select {
		case err := <-r.exited:
			t.Fatalf("ended before it had a cgroup: %v\n%s", err, &r.stderr)
		default:
		}
	}
	t.Fatalf("no limit for %s after %v: %v", group, testTimeout, err)
}

// A host that runs out of processes or of memory ends the filling. It is said at
// which container, and everything that was started is removed.
func TestDensityOnAFullHost(t *testing.T) {
	t.Parallel() // what is limited is each run's own group
	engines := usable(t, "floor", "runc", "crun", "containerd")
	for name, l := range map[string]cgroup.Limits{"processes": {Pids: 15}, "memory": {Memory: 8 << 20}} {
		for until, outcome := range map[string]bench.Outcome{"count": bench.Failed, "failure": bench.OK} {
			t.Run(name+"/"+until, func(t *testing.T) {
				t.Parallel() // as above
				p := newTestEnv(t)
				r := p.begin(t, "run", "density", "--json", "--engine", strings.Join(engines, ","), "--count", "60",
					"--param", "until="+until, "--param", "idle=100ms", "--blocks", "1", "--warmup", "0", "--precision", "off",
					"--no-control", "--output", p.recordFile())
				p.limit(t, r, l)
				result := r.end(t)
				for _, s := range p.recorded(t).Samples {
					t.Logf("%s %s", s.Outcome, s.Reason)
					if s.Outcome != outcome || outcome == bench.Failed && !strings.Contains(s.Reason, " of 60: ") {
						t.Errorf("%s: %q, want %s at one of 60\n%s", s.Outcome, s.Reason, outcome, result.stderr)
					}
				}
				if outcome == bench.OK {
					var d report.Document
					decode(t, result.stdout, &d)
					wantValues(t, d, "memory", nil)
				}
				p.nothingLeft(t)
			})
		}
	}
}
