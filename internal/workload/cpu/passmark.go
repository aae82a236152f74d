package cpu

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"syscall"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/cpu"
	"github.com/tare-bench/tare/internal/supervise"
)

// passMark returns PassMark's PerformanceTest for Linux, under the name that it has on
// the host.
func passMark() (supervise.Program, error) {
	p := supervise.Program{Package: "PerformanceTest for Linux from PassMark, and put its directory into PATH"}
	var errs []error
	for _, p.Name = range []string{"pt_linux_x64", "pt_linux_arm64", passMarkName} {
		err := p.Find()
		if err == nil {
			return p, nil
		}
		errs = append(errs, err)
	}
	return p, errs[len(errs)-1]
}

func findPassMark() error {
	_, err := passMark()
	return err
}

const passMarkName = "pt_linux"

// resultsFile is the file that PassMark writes to its working directory.
const resultsFile = "results_cpu.yml"

// A workDir is a directory of the host in which the cell's containers leave
// their results.
type workDir struct {
	*supervise.Jobs
	dir string
}

func newWorkDir(t bench.Task) (bench.Fixture, error) {
	dir, err := os.MkdirTemp(t.Dir, "passmark-")
	if err != nil {
		return nil, err
	}
	w := &workDir{dir: dir}
	w.Jobs = supervise.NewJobs(t, w.job(t))
	return w, nil
}

// job runs the CPU tests once, with their shortest length, which cannot be set more
// precisely. The terminal output is a picture, so the numbers come from the results file.
func (w *workDir) job(t bench.Task) supervise.Job {
	p, _ := passMark() // Check made sure of it
	spec := w.specFor(t)
	spec.Env = append([]string{"TERM=xterm"}, spec.Env...)
	args := []string{"-r", "1", "-d", "1", "-i", "1", "-p", supervise.Threads(t)}
	return p.Job(spec, args, func([]byte) (*load.Report, error) {
		text, err := takeResults(w.dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		values, missing := passMarkScores(text)
		if missing != "" {
			return nil, p.UnknownOutput("number above zero for "+missing, text)
		}
		return report(values), nil
	})
}

// specFor lets a container write into the directory: a plain process directly, any other
// container into a subdirectory that the engine makes.
func (w *workDir) specFor(t bench.Task) bench.Spec {
	spec := t.Spec
	if _, ok := bench.As[bench.DataKeeper](t.Engine); ok {
		spec.Dir = w.dir
		return spec
	}
	spec.Storage, spec.Data, spec.Dir = "bind", w.dir, bench.DataDir
	return spec
}

// Remove implements bench.Fixture.
func (w *workDir) Remove(ctx context.Context) error {
	return errors.Join(w.Jobs.Remove(ctx), os.RemoveAll(w.dir))
}

// maxResults is larger than any results file, in bytes.
const maxResults = 64 << 10

// takeResults reads and removes the results file in dir or where an engine keeps a container's data
// below it: in data of a directory of its own. The file is not trusted: a link cannot lead out of dir.
func takeResults(dir string) (text []byte, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	here, _ := fs.Glob(root.FS(), resultsFile) // the pattern is well formed, as is the next
	below, _ := fs.Glob(root.FS(), "*/data/"+resultsFile)
	found := append(here, below...)
	if len(found) != 1 {
		return nil, fmt.Errorf("it left %d files %s, want one", len(found), resultsFile)
	}
	f, err := root.OpenFile(found[0], os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	text, err = io.ReadAll(io.LimitReader(f, maxResults))
	return text, errors.Join(err, f.Close(), root.Remove(found[0]))
}

// A passMarkTest is the test of PassMark that resembles a kernel.
type passMarkTest struct {
	kernel, key string
	unit        float64 // unit of its number
}

func passMarkTests() []passMarkTest {
	return []passMarkTest{
		{"integer", "CPU_INTEGER_MATH", 1e6},
		{"float", "CPU_FLOATINGPOINT_MATH", 1e6},
		{"prime", "CPU_PRIME", 1e6},
		{"sort", "CPU_SORTING", 1e3},
		{"encryption", "CPU_ENCRYPTION", 1e6},
		{"compression", "CPU_COMPRESSION", 1e3},
		{"physics", "CPU_PHYSICS", 1},
		{"vector", "CPU_MATRIX_MULT_SSE", 1e6},
	}
}

// passMarkScores reads a results file. missing names the first result that is not there
// or was not measured.
func passMarkScores(text []byte) (values map[string]float64, missing string) {
	numbers := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		key, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), ":")
		numbers[key] = strings.TrimSpace(value)
	}
	values = map[string]float64{}
	logs := 0.0
	for _, test := range passMarkTests() {
		n, ok := positive(numbers[test.key])
		if !ok {
			return nil, test.key
		}
		values[cpu.All+"."+test.kernel] = n * test.unit
		logs += math.Log(n * test.unit)
	}
	single, ok := positive(numbers["CPU_SINGLETHREAD"])
	if !ok {
		return nil, "CPU_SINGLETHREAD"
	}
	values[cpu.Single], values[cpu.All] = single*1e6, math.Exp(logs/float64(len(passMarkTests())))
	return values, ""
}
