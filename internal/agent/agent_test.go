package agent_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/agent"
)

// binary is the agent as a program, built by TestMain with the entry point
// that reads the clock; plain is the same without.
var binary, plain string

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tare-agent-test-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }() // at worst a leftover in the temporary directory
		binary, plain = filepath.Join(dir, "tare-agent"), filepath.Join(dir, "plain")
		err = errors.Join(build(binary, "-s -w -E tare_start"), build(plain, "-s -w"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build(file, ldflags string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", file,
		"github.com/tare-bench/tare/cmd/tare-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", file, err, out)
	}
	return nil
}

// call runs a task in this process.
func call(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = agent.Main(0, args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestTasks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	for _, test := range []struct {
		name   string
		args   []string
		code   int
		stdout string // regular expression, of all of it
		stderr string
	}{
		{"exit 0", []string{"exit", "0"}, 0, ``, ``},
		{"exit 255", []string{"exit", "255"}, 255, ``, ``},
		{"echo", []string{"echo", "a", "b  c"}, 0, `a b  c\n`, ``},
		{"echo nothing", []string{"echo"}, 0, `\n`, ``},
		{"echo to stderr", []string{"echo", "-2", "a", "b"}, 0, ``, `a b\n`},
		{"write", []string{"write", file, "text"}, 0, ``, ``},
		{"cat", []string{"cat", file}, 0, `text`, ``},
		{"cat nothing", []string{"cat", file + "-no"}, 1, ``, `tare-agent: cat: open .*: no such file or directory\n`},
		{"write nowhere", []string{"write", file + "/no", "x"}, 1, ``, `tare-agent: write: open .*: not a directory\n`},
		{"print 0", []string{"print", "0"}, 0, ``, ``},
		{"print 70", []string{"print", "70"}, 0, `[0-9]{63}\n[0-9]{6}`, ``},
		{"print to both", []string{"print", "3", "both"}, 0, `012`, `012`},
		{"sleep", []string{"sleep", "1ms"}, 0, ``, ``},
		{"spin", []string{"spin", "1ms", "2"}, 0, `cpu=[0-9]+ wall=[0-9]+\n`, ``},
		{"mark without first", []string{"mark"}, 1, ``, `tare-agent: mark: .*'make build'.*\n`},
		{"no task", nil, 2, ``, `tare-agent: no task given: use mark or one of: exit .*\n`},
		{"unknown task", []string{"bogus"}, 2, ``, `tare-agent: there is no task "bogus": use mark or one of: exit .*\n`},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := call(test.args...)
			if code != test.code {
				t.Errorf("exit status %d, want %d", code, test.code)
			}
			match(t, "stdout", stdout, test.stdout)
			match(t, "stderr", stderr, test.stderr)
		})
	}
}

func match(t *testing.T, what, got, pattern string) {
	t.Helper()
	if !regexp.MustCompile(`^(?:` + pattern + `)$`).MatchString(got) {
		t.Errorf("%s: %q, want match for %q", what, got, pattern)
	}
}

func TestMisuse(t *testing.T) {
	for _, args := range [][]string{
		{"mark", "x"},
		{"exit"},
		{"exit", "256"},
		{"exit", "-1"},
		{"exit", "x"},
		{"env", "x"},
		{"facts", "x"},
		{"cat"},
		{"write", "x"},
		{"print"},
		{"print", "-1"},
		{"print", "1k"},
		{"spew", "1"},
		{"sleep"},
		{"sleep", "5"},
		{"sleep", "-1s"},
		{"hold", "x"},
		{"stubborn", "x"},
		{"spin"},
		{"spin", "x"},
		{"spin", "1s", "0"},
		{"spin", "1s", "1", "1"},
		{"alloc"},
		{"alloc", "0"},
		{"alloc", "1g"},
		{"fork"},
		{"fork", "-1"},
		{"serve"},
		{"serve", "0"},
		{"serve", "65536"},
		{"serve", "80", "-1s"},
		{"serve", "80", "1s", "x"},
		{"probe"},
		{"probe", "http"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			code, stdout, stderr := call(args...)
			if code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%q: exit status %d, stdout %q, stderr %q, want 2 and one line on stderr", args, code, stdout, stderr)
			}
		})
	}
}

func TestFullPipe(t *testing.T) {
	for _, task := range []string{"env", "facts", "spew", "hold", "stubborn"} {
		var stderr bytes.Buffer
		if code := agent.Main(0, []string{task}, failing{}, &stderr); code != 1 {
			t.Errorf("%s: exit status %d with broken stdout, want 1", task, code)
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestPrintIsExact(t *testing.T) {
	for _, n := range []int{1, 64, 32767, 32768, 32769, 1_000_000} {
		code, stdout, _ := call("print", strconv.Itoa(n))
		if code != 0 || len(stdout) != n {
			t.Errorf("print %d: exit status %d, %d bytes", n, code, len(stdout))
		}
	}
}

// A cleaned environment makes the output of "env" a complete one.
func TestEnvIsSorted(t *testing.T) {
	cmd := exec.Command(binary, "env")
	cmd.Env = []string{"B=2", "A=1", "C="}
	out, err := cmd.Output()
	if diff := cmp.Diff("A=1\nB=2\nC=\n", string(out)); err != nil || diff != "" {
		t.Errorf("env: %v, difference (-want +got):\n%s", err, diff)
	}
}

// The mark lies between two readings of the host's clock, so the clock is
// the same one, in the same unit.
func TestMark(t *testing.T) {
	before := monotonic(t)
	out, err := exec.Command(binary, "mark").Output()
	after := monotonic(t)
	if err != nil {
		t.Fatal(err)
	}
	m, err := agent.ParseMark(out)
	if err != nil {
		t.Fatal(err)
	}
	if !(before < m.First && m.First < m.Last && m.Last < after) {
		t.Errorf("clock before %d, mark %d to %d, clock after %d: want them in order", before, m.First, m.Last, after)
	}
}

// monotonic asks the agent's own clock in this process: a mark whose first
// instruction is in the past tells its last.
func monotonic(t *testing.T) time.Duration {
	t.Helper()
	var out, errs bytes.Buffer
	if code := agent.Main(1, []string{"mark"}, &out, &errs); code != 0 {
		t.Fatalf("mark: exit status %d: %s", code, errs.String())
	}
	m, err := agent.ParseMark(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return m.Last
}

func TestMarkIsOneWrite(t *testing.T) {
	var w counter
	if code := agent.Main(1, []string{"mark"}, &w, &w); code != 0 || w != 1 {
		t.Errorf("mark: exit status %d after %d writes, want 0 after 1", code, w)
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) { *c++; return len(p), nil }

// A binary that was linked without -E must not pass off the time at which its
// runtime was ready as that of its first instruction.
func TestPlainBuildRefusesToMark(t *testing.T) {
	cmd := exec.Command(plain, "mark")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || len(out) != 0 {
		t.Errorf("mark of a build without -E: %v, stdout %q, want exit status 1 and nothing", err, out)
	}
	match(t, "stderr", stderr.String(), `.*link it with -E tare_start, as 'make build' does\n`)
}

func TestSize(t *testing.T) {
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	if limit := int64(4_000_000); info.Size() > limit {
		t.Errorf("the agent has %d bytes, want at most %d", info.Size(), limit)
	}
}
