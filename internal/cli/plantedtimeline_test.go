package cli_test

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/bench"
)

const ms = time.Millisecond

// A timelinePlant is something that takes time while a container is created.
type timelinePlant struct {
	// does is what bash executes before it becomes the runtime. What it cannot know before, it appends to
	// $log: the process that takes the time, and how long by another clock, in ns.
	does string
	took time.Duration // of each trial; 0 = as the log says
	// where it has to be found: the role, empty for the process in the log; and in which kinds.
	role  timeline.Role
	kinds []timeline.Kind
	class timeline.Class // empty = any
}

// timelinePlants are by the name of the engine that has them. The kernel counts how long a process ran, and how long
// it waited for a CPU.
var timelinePlants = map[string]timelinePlant{
	"sleeps": {
		does: `sleep 0.02`,
		took: 20 * ms, role: "sleep", kinds: []timeline.Kind{timeline.Waiting}, class: timeline.Timers,
	},
	"hooks": {
		does: `while [ "$1" != "" ]; do [ "$last" = --bundle ] && bundle=$1; last=$1; shift; done
			sed -i '0,/"process"/s//"hooks":{"prestart":[{"path":"\/bin\/sleep","args":["sleep","0.03"]}]},"process"/' \
				$bundle/config.json`,
		took: 30 * ms, role: "hook", kinds: []timeline.Kind{timeline.Waiting}, class: timeline.Timers,
	},
	"spins": {
		does:  `spin 20; echo $$ $ran >>$log`,
		kinds: []timeline.Kind{timeline.OnCPU, timeline.InCall},
	},
	"shares": {
		does: `cpu=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//'); taskset -cp $cpu $$ >/dev/null
			(while :; do :; done) & spin 20; kill $!; counted; echo $$ $waited >>$log`,
		kinds: []timeline.Kind{timeline.Ready},
	},
	"syncs": {
		does: `group=/sys/fs/cgroup/blkio/tare-test-$$ limit=blkio.throttle.write_iops_device value="$disk 50"
			if ! [ -d /sys/fs/cgroup/blkio ]; then
				echo +io >/sys/fs/cgroup/cgroup.subtree_control
				group=/sys/fs/cgroup/tare-test-$$ limit=io.max value="$disk wiops=50"
			fi
			mkdir $group; echo "$value" >$group/$limit
			(echo $BASHPID >$group/cgroup.procs; exec dd if=/dev/zero of=$0.data bs=4k count=2 oflag=direct,dsync) 2>$0.dd &
			wait; rmdir $group
			took=$(sed -n 's/.*copied, \([0-9.]*\) s.*/\1/p' $0.dd)
			echo $! $(printf '%.0f' ${took}e9) >>$log`,
		kinds: []timeline.Kind{timeline.Waiting}, class: timeline.Storage,
	},
	"moves": {
		does: `for group in /sys/fs/cgroup/cpu /sys/fs/cgroup; do [ -e $group/cgroup.procs ] && break; done
			mkdir $group/tare-test-$$
			read -t 0.15 <> <(:) # so that the kernel's lock is at rest
			counted; clock; began=$((now - waited)); echo $$ >$group/tare-test-$$/cgroup.procs; clock; counted
			echo $$ $((now - waited - began)) >>$log
			echo $$ >$group/cgroup.procs; rmdir $group/tare-test-$$`,
		kinds: []timeline.Kind{timeline.Waiting}, class: timeline.Groups,
	},
}

// plantHelpers are what the plants have in common. To ask for times has the kernel count up to now.
const plantHelpers = `
log=$0.log
clock() { now=$((${EPOCHREALTIME/[.,]/} * 1000)); }
counted() { times >/dev/null; read -r ran waited _ </proc/self/schedstat; }
spin() {
	counted; local until=$((ran + $1 * 1000000))
	while [ $ran -lt $until ]; do for ((i = 0; i < 2000; i++)); do :; done; counted; done
}
`

// timelineEngine writes a runtime that is runc with something planted.
func (p *testEnv) timelineEngine(t *testing.T, name, does string) string {
	t.Helper()
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(p.dir, name)
	script := fmt.Sprintf("#!/bin/bash\ndisk=%s\n%s\nplant() {\n%s\n}\n"+
		"case \" $* \" in *' create '*) plant \"$@\";; esac\nexec %s \"$@\"\n",
		diskOf(t, p.dir), plantHelpers, does, runc)
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// measureTimelines measures an experiment with a traced trial of each cell after every block, and returns the
// timelines of each engine.
func (p *testEnv) measureTimelines(t *testing.T, experiment string, blocks int) map[string]*timeline.Cell {
	t.Helper()
	file := p.write(t, "planted.yaml", experiment+fmt.Sprintf("workload: lifecycle\n"+
		"control: false\nblocks: %d\nwarmup: 1\nprecision: off\nwashout: 200ms\ntimeline: 1\n", blocks))
	s := p.tare(t, "run", file)
	if s.code == 4 && os.Geteuid() != 0 {
		t.Skip("nothing can be traced here: " + s.stderr)
	}
	if s.code != 0 {
		t.Fatalf("exit code %d: %s", s.code, s.stderr)
	}
	p.must(t, "export", "last", "-o", p.recordFile())
	run := p.recorded(t)
	result, all := timeline.Analyze(run, ""), map[string]*timeline.Cell{}
	for i := range result.Cells {
		c := &result.Cells[i]
		all[run.Header.Plan.Cells[c.Cell].Engine] = c
		if c.Failed > 0 || c.Complete < blocks-1 { // a busy machine may lose events of one
			t.Errorf("%s: %d of %d timelines are complete: %s", run.Header.Plan.Cells[c.Cell].Name, c.Complete,
				len(c.Timelines), c.Incomplete)
		}
	}
	if len(all) != len(run.Header.Plan.Cells) {
		t.Fatalf("%d of %d cells have timelines; %v", len(all), len(run.Header.Plan.Cells), warnings(run))
	}
	return all
}

func warnings(run *bench.Run) (all []string) {
	for _, w := range run.Header.Warnings {
		all = append(all, w.Text)
	}
	return all
}

// logged reads what a plant has appended: for each process how long it took.
func (p *testEnv) logged(t *testing.T, name string) map[int]time.Duration {
	t.Helper()
	f, err := os.Open(filepath.Join(p.dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	all := map[int]time.Duration{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var pid int
		var ns int64
		if n, err := fmt.Sscan(lines.Text(), &pid, &ns); n != 2 {
			t.Fatalf("%s has logged %q: %v", name, lines.Text(), err)
		}
		all[pid] = time.Duration(ns)
	}
	return all
}

// found is how long a timeline says that it took, and how long it did.
func (x *timelinePlant) found(one *timeline.Timeline, logged map[int]time.Duration) (got, want time.Duration) {
	want = x.took
	lanes := make([]bool, len(one.Lanes))
	for i, lane := range one.Lanes {
		took, is := logged[lane.Process]
		if x.took == 0 && is && string(lane.Role) != "runc" { // which the process becomes later
			lanes[i], want = true, took
		}
		lanes[i] = lanes[i] || x.took > 0 && lane.Role == x.role
	}
	for _, tile := range one.Tiles {
		if lanes[tile.Lane] && slices.Contains(x.kinds, tile.Kind) && (x.class == "" || x.class == tile.Class) {
			got += tile.Duration
		}
	}
	return got, want
}

// enough reports whether a cause was found in so many of its trials: two thirds, because another program on the machine
// can bend single ones. The short form wants half: what a change breaks is wrong in all of them.
func enough(found, trials int) bool {
	if testing.Short() {
		return 2*found >= trials
	}
	return 3*found >= 2*trials
}

// agree reports whether two times differ by at most 10 %, or a millisecond.
func agree(got, want time.Duration) bool { return (got - want).Abs() <= max(want/10, ms) }

// What is planted is found in the right row, with its time.
func TestPlantedTimeIsInItsRow(t *testing.T) {
	require(t, "runc")
	p := newTestEnv(t)
	onDisk(t, p) // of which the writes are limited
	engines, names := "engines:\n", slices.Sorted(maps.Keys(timelinePlants))
	for _, name := range names {
		binary := p.timelineEngine(t, name, timelinePlants[name].does)
		engines += fmt.Sprintf("  %s: {driver: oci, binary: %q}\n", name, binary)
	}
	cells := p.measureTimelines(t, engines+"factors: {engine: ["+strings.Join(names, ", ")+"]}\n", 4)
	for _, name := range names {
		plant, c := timelinePlants[name], cells[name]
		var logged map[int]time.Duration
		if plant.took == 0 {
			logged = p.logged(t, name)
		}
		found, most, all := 0, time.Duration(0), []string{}
		for i := range c.Timelines {
			got, want := plant.found(&c.Timelines[i], logged)
			found, most = found+one(agree(got, want)), max(most, want)
			all = append(all, fmt.Sprintf("%v of %v", got, want))
		}
		t.Logf("%s: %s", name, strings.Join(all, ", "))
		if !enough(found, len(all)) || most < 2*ms {
			t.Errorf("%s: found in %d of %d trials", name, found, len(all))
		}
	}
}

// A container on Podman's bridge waits for iptables, which CNI plugins call several times.
func TestPlantedTimeOfIptables(t *testing.T) {
	require(t, "podman")
	iptables, err := exec.LookPath("/usr/sbin/iptables")
	if err != nil {
		t.Skip(err)
	}
	p := newTestEnv(t)
	script := "#!/bin/bash\nsleep 0.005 & echo $$ $! >>$0.log; wait\nexec " + iptables + " \"$@\"\n"
	file := p.write(t, "iptables", script)
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "PATH="+p.dir+":"+os.Getenv("PATH"))
	c := p.measureTimelines(t, "factors: {engine: [podman]}\nspec: {network: bridge}\n", 4)["podman"]
	sleeps := timelinePlant{role: "sleep", kinds: []timeline.Kind{timeline.Waiting}, class: timeline.Timers, took: 5 * ms}
	logged := p.logged(t, "iptables")
	found, most, all := 0, 0, []string{}
	for i := range c.Timelines {
		calls := map[int]bool{}
		for _, lane := range c.Timelines[i].Lanes {
			if _, is := logged[lane.Process]; is {
				calls[lane.Process] = true
			}
		}
		got, want := sleeps.found(&c.Timelines[i], nil)
		want *= time.Duration(len(calls))
		found, most = found+one(agree(got, want)), max(most, len(calls))
		all = append(all, fmt.Sprintf("%d calls: %v of %v", len(calls), got, want))
	}
	t.Log(strings.Join(all, ", "))
	if !enough(found, len(all)) || most < 3 {
		t.Errorf("found in %d of %d trials", found, len(all))
	}
}

// known reports whether a role is one that a rule has, or an engine's own program.
func known(r timeline.Role) bool {
	for _, prefix := range []string{"CNI plugin ", "network plugin "} {
		if strings.HasPrefix(string(r), prefix) {
			return true
		}
	}
	name := strings.TrimSuffix(strings.TrimSuffix(string(r), ", again"), " init")
	return slices.Contains([]string{
		"tare", "dockerd", "docker-proxy", "containerd", "shim", "podman", "conmon", "runc", "crun", "hook", "iptables", "nft",
		"program",
	}, name)
}

// Whatever is on the path of an engine has a role that is known, and of less than 5 % nothing is known. Nothing is
// planted; but another test that had the daemons work meanwhile would be on their paths.
func TestPlantedNothingWithoutARole(t *testing.T) {
	engines := usable(t, "runc", "crun", "docker", "podman", "containerd", "cri")
	if len(engines) == 0 {
		t.Skip("no engine is here")
	}
	blocks := 8
	if testing.Short() {
		blocks = 2
	}
	p := newTestEnv(t)
	experiment := "factors: {engine: [" + strings.Join(engines, ", ") + "]}\n"
	for engine, c := range p.measureTimelines(t, experiment, blocks) {
		roles := map[timeline.Role]time.Duration{}
		for i := range c.Timelines {
			one, sum := &c.Timelines[i], time.Duration(0)
			for _, tile := range one.Tiles {
				roles[one.Lanes[tile.Lane].Role] += tile.Duration
				sum += tile.Duration
			}
			if one.Incomplete == "" && sum != one.Value {
				t.Errorf("%s: the tiles sum to %v, the metric is %v", engine, sum, one.Value)
			}
		}
		t.Logf("%s: unknown is %v of %v; roles %v", engine, c.Unknown, c.Value.Value, roles)
		for role, took := range roles {
			if !known(role) {
				t.Errorf("%s: for %v, %q is on the path", engine, took, role)
			}
		}
		if roles["tare"] == 0 || roles["program"] == 0 || len(roles) < 3 {
			t.Errorf("%s: on the path there are only %v", engine, roles)
		}
		if c.Unknown >= c.Value.Value/20 {
			t.Errorf("%s: nothing is known of %v of %v", engine, c.Unknown, c.Value.Value)
		}
	}
}

// Docker beside itself: where nothing differs, a list of rows claims something in at most one of twenty runs. One run is
// taken apart into stretches of blocks, each of which is analysed as a run. With -count=8 they are 40.
func TestPlantedNothingInTimelines(t *testing.T) {
	if testing.Short() {
		return
	}
	require(t, "docker")
	const stretches, blocks = 5, 8
	p := newTestEnv(t)
	p.begin(t, "run", "lifecycle", "--engine", "docker", "--engine", "docker,name=again", "--baseline", "docker", "--timeline=1",
		"--blocks", fmt.Sprint(stretches*blocks), "--budget", "off", "--precision", "off", "--warmup", "1", "--no-control",
		"--washout", "200ms", "--quiet").endWithin(t, 10*testTimeout)
	p.must(t, "export", "last", "-o", p.recordFile())
	run := p.recorded(t)
	claimed := 0
	for i := range stretches {
		part := *run
		part.Samples = slices.DeleteFunc(slices.Clone(run.Samples), func(s bench.Sample) bool {
			return s.Trial.Block/blocks != i || s.Trial.Warmup()
		})
		d, ok := timeline.Analyze(&part, "").Between(1, 0)
		if !ok || d.Blocks < blocks/2 {
			t.Fatalf("stretch %d: %d blocks can be compared", i, d.Blocks)
		}
		claimed += one(len(d.Rows) > 0)
		for _, r := range d.Rows {
			t.Logf("stretch %d: %s, %s, %s: %v [%v, %v]", i, r.Role, r.Kind, r.Class, r.Mean.Value, r.Mean.Low, r.Mean.High)
		}
	}
	wantAtMost(t, claimed, stretches, 0.05, "runs claimed that docker differs from itself")
}
