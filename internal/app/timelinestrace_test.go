package app_test

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/engine/enginetest"
)

// straced is what strace has written of one call of the runtime.
type straced struct {
	executed map[int][]string // the names of programs, by process, in order of time
	// onCPU is what the kernel has counted, by process: until its parent waited for it, with what it did before it
	// executed anything; or between two times when it asked for itself.
	onCPU map[int]time.Duration
}

var (
	// straceLine is a line of strace -f -ttt: the process, and what it called; or the rest of a call.
	straceLine = regexp.MustCompile(
		`^(\d+) +[\d.]+ (?:<\.\.\. )?(execveat|execve|wait4|waitid|getrusage)(?: resumed>|\()(.*)$`)
	straceFile   = regexp.MustCompile(`^(?:\d+, )?"([^"]*)"`)
	straceUsage  = regexp.MustCompile(`ru_utime=\{tv_sec=(\d+), tv_usec=(\d+)\}, ru_stime=\{tv_sec=(\d+), tv_usec=(\d+)\}`)
	straceWaited = regexp.MustCompile(`si_pid=(\d+)|= ([1-9]\d*)$`)
)

// readStrace reads what strace has written.
func readStrace(t *testing.T, file string) straced {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	s := straced{map[int][]string{}, map[int]time.Duration{}}
	asked := map[int]string{}           // by process: the file, or whose usage, of a call that may go on in a later line
	itself := map[int][]time.Duration{} // by process: what it was told of itself
	for lines := bufio.NewScanner(f); lines.Scan(); {
		m := straceLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		pid, _ := strconv.Atoi(m[1])
		if strings.HasPrefix(m[2], "exec") {
			if name := straceFile.FindStringSubmatch(m[3]); name != nil {
				asked[pid] = name[1]
			}
			if strings.HasSuffix(m[3], " = 0") {
				s.executed[pid] = append(s.executed[pid], filepath.Base(asked[pid]))
			}
			continue
		}
		if of, _, ok := strings.Cut(m[3], ","); ok && strings.HasPrefix(of, "RUSAGE_") {
			asked[pid] = of
		}
		used, known := usedCPU(m[3])
		waited := straceWaited.FindStringSubmatch(m[3])
		switch {
		case known && m[2] == "getrusage" && asked[pid] == "RUSAGE_SELF":
			itself[pid] = append(itself[pid], used)
		case known && m[2] != "getrusage" && waited != nil:
			child, _ := strconv.Atoi(cmp.Or(waited[1], waited[2]))
			s.onCPU[child] = used
		}
	}
	for pid, all := range itself {
		s.onCPU[pid] = all[len(all)-1] - all[0]
	}
	return s
}

// usedCPU is the CPU time in what strace writes of a call; false if there is none.
func usedCPU(text string) (time.Duration, bool) {
	usage := straceUsage.FindStringSubmatch(text)
	if usage == nil {
		return 0, false
	}
	var n [4]time.Duration
	for i := range n {
		v, _ := strconv.ParseInt(usage[i+1], 10, 64)
		n[i] = time.Duration(v)
	}
	return (n[0]+n[2])*time.Second + (n[1]+n[3])*time.Microsecond, true
}

// stracedEngine is an experiment with one runtime: runc, with a hook that computes, under strace, which writes a file
// in dir for each container that is created.
func stracedEngine(t *testing.T, dir string) string {
	t.Helper()
	runc, err := exec.LookPath("runc")
	enginetest.Require(t, "runc", err)
	strace, err := exec.LookPath("strace")
	enginetest.Require(t, "runc", err)
	hook := `{"path":"/bin/bash","args":["bash","-c","times; for ((i = 0; i < 10000; i++)); do :; done; times"]}`
	script := fmt.Sprintf(`#!/bin/bash
case " $* " in *' create '*) ;; *) exec %s "$@";; esac
args=("$@")
while [ "$1" != "" ]; do [ "$last" = --bundle ] && bundle=$1; last=$1; shift; done
sed -i '0,/"process"/s//"hooks":{"prestart":[%s]},"process"/' $bundle/config.json
exec %s -D -f -ttt -e trace=execve,execveat,wait4,waitid,getrusage -o %s/$$ %s "${args[@]}"
`, runc, strings.ReplaceAll(hook, "/", `\/`), strace, dir, runc)
	file := filepath.Join(t.TempDir(), "straced")
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("workload: lifecycle\nengines: {straced: {driver: oci, binary: %q}}\n"+
		"factors: {engine: [straced]}\ncontrol: false\nblocks: 2\nwarmup: 0\nprecision: off\n", file)
}

// A timeline has the programs that strace has seen, and counts their time as the kernel does.
func TestTimelineAgreesWithStrace(t *testing.T) {
	dir := t.TempDir()
	_, r := traced(t, stracedEngine(t, dir))
	for _, c := range timeline.Analyze(r, "").Cells {
		if c.Complete != 2 {
			t.Errorf("%d of 2 timelines are complete: %s", c.Complete, c.Incomplete)
		}
		for i := range c.Timelines {
			one := &c.Timelines[i]
			at := slices.IndexFunc(one.Lanes, func(l timeline.Lane) bool { return l.Name == "strace" })
			if at < 0 {
				t.Fatal("strace has no lane")
			}
			compareWithStrace(t, one, readStrace(t, filepath.Join(dir, strconv.Itoa(one.Lanes[at].Process))))
		}
	}
}

func compareWithStrace(t *testing.T, one *timeline.Timeline, s straced) {
	t.Helper()
	lanes, onCPU := map[int][]string{}, map[int]time.Duration{}
	for _, l := range one.Lanes { // of a process that has executed nothing, the time is its parent's
		if _, seen := s.executed[l.Process]; seen && l.Name != "straced" && l.Name != "strace" {
			lanes[l.Process] = append(lanes[l.Process], l.Name)
			onCPU[l.Process] += l.OnCPU
		}
	}
	again, hooks := false, 0
	for pid, names := range lanes {
		executed := s.executed[pid]
		again = again || slices.Contains(executed, byDescriptor)
		for _, name := range names { // what took no time has no lane
			i := slices.IndexFunc(executed, func(e string) bool {
				return e == name || name == "runc" && (e == "exe" || e == byDescriptor)
			})
			if i < 0 {
				t.Errorf("process %d has executed %q, and its lanes are %q", pid, s.executed[pid], names)
				break
			}
			executed = executed[i+1:]
		}
		counted, known := s.onCPU[pid]
		if known {
			t.Logf("process %d, %q: on a CPU for %v, as the kernel counts %v", pid, names, onCPU[pid], counted)
		}
		if onCPU[pid] < counted*9/10-ms {
			t.Errorf("process %d, %q: on a CPU for %v, want %v", pid, names, onCPU[pid], counted)
		}
		if slices.Contains(names, "bash") && counted > 2*ms {
			hooks++
		}
	}
	if hooks != 1 || !again || len(lanes) < 3 {
		t.Errorf("strace has seen %v, %v; %d hooks, execveat %v", s.executed, s.onCPU, hooks, again)
	}
}

// byDescriptor is the name of a file that execveat executes by its descriptor, which has no path.
const byDescriptor = "."
