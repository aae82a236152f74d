package supervise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/turn"
)

// A Job is the work of one container in a trial, a load of the agent or another
// program, and how its results are read.
type Job struct {
	Role string     // in errors, such as "server"; it may be empty
	Spec bench.Spec // of the container; for a load without Image and Argv
	Load []string   // name and options of a load, see LoadOf; nil = another program
	// KeepsRunning says that the load continues after it has reported.
	KeepsRunning bool

	// Prepare makes what the work needs besides its container. This and the
	// following functions may be nil.
	Prepare func(context.Context) error
	// Read waits for another program to finish its work, and returns its results.
	Read func(context.Context, *Process) (*load.Report, error)
	// Finish turns a load's report into metrics, if RecordReport is not enough. The process
	// is still alive.
	Finish func(context.Context, *Process, bench.Meter, *load.Report) error
}

// LoadOf returns a load with its options, as a Job has it.
func LoadOf(name string, options map[string]string) []string {
	return append([]string{name}, load.Words(options)...)
}

// spec returns the Spec of a job for the engine.
func (s *Jobs) spec(j *Job) bench.Spec {
	spec := j.Spec
	if j.Load != nil {
		spec.Argv = Loads(s.turnsOf(j), j.Load)
	}
	return spec
}

// turnsOf returns the turns of a job; nil if it takes none. What answers requests takes none: those
// who ask do.
func (s *Jobs) turnsOf(j *Job) bench.Turns {
	if j.Load == nil || j.KeepsRunning {
		return nil
	}
	return s.turns
}

// done waits until the job, the nth load of its process, is done, and reports its results.
func (j *Job) done(ctx context.Context, p *Process, m bench.Meter, nth int) error {
	report, err := j.report(ctx, p, nth)
	switch {
	case err != nil:
		return err
	case j.Finish != nil:
		return j.Finish(ctx, p, m, report)
	}
	RecordReport(m, report)
	return nil
}

func (j *Job) report(ctx context.Context, p *Process, nth int) (*load.Report, error) {
	if j.Load == nil {
		return j.Read(ctx, p)
	}
	reports, err := p.Reports(ctx, nth)
	if err != nil {
		return nil, err
	}
	return reports[nth-1], nil
}

// RecordReport reports the results of a load.
func RecordReport(to bench.Recorder, r *load.Report) {
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		to.Record(name, r.Values[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Distributions)) {
		to.Distribution(name, string(r.Distributions[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Slices)) {
		to.Series(name+SlicesSuffix, r.Slices[name])
	}
	for _, note := range r.Notes {
		to.Note(note)
	}
	RecordCost(to, r)
}

// Jobs is the work of a cell's trials, each job in a container of its own. It is a
// Fixture: before each trial, it lets the engine prepare the containers.
type Jobs struct {
	engine bench.Engine
	turns  bench.Turns // nil unless the cell takes turns with others
	jobs   []Job
}

// NewJobs returns the jobs of a cell.
func NewJobs(t bench.Task, jobs ...Job) *Jobs { return &Jobs{t.Engine, t.Turns, jobs} }

// Reset implements bench.Fixture.
func (s *Jobs) Reset(ctx context.Context) error {
	for _, j := range s.jobs {
		if err := prepare(ctx, s.engine, s.spec(&j), j); err != nil {
			return err
		}
	}
	return nil
}

func prepare(ctx context.Context, e bench.Engine, spec bench.Spec, jobs ...Job) error {
	err := e.Prepare(ctx, spec)
	for _, j := range jobs {
		if err == nil && j.Prepare != nil {
			err = j.Prepare(ctx)
		}
	}
	return err
}

// Remove implements bench.Fixture.
func (*Jobs) Remove(context.Context) error { return nil }

// RunTrial does one trial with the Fixture of its cell: the jobs, one after the other. It
// reports their results, what the kernel counted for them, and what the engine applied
// to the first.
func RunTrial(ctx context.Context, t bench.Task, m bench.Meter) error {
	f, ok := t.Fixture.(interface {
		work(context.Context, bench.Meter) error
	})
	if !ok {
		return errors.New("the workload was not set up")
	}
	return f.work(ctx, m)
}

func (s *Jobs) work(ctx context.Context, m bench.Meter) error {
	var counts []*Counts
	for i, j := range s.jobs {
		c, err := s.workOne(ctx, m, j, i == 0)
		if err != nil {
			return err
		}
		counts = append(counts, c)
	}
	Record(m, counts...)
	return nil
}

func (s *Jobs) workOne(ctx context.Context, m bench.Meter, j Job, attest bool) (*Counts, error) {
	spec := s.spec(&j)
	p, err := Start(ctx, s.engine, spec, m, j.Role)
	if err != nil {
		return nil, err
	}
	defer m.Cleanup(p.Remove)
	if err := p.TakeTurns(ctx, s.turnsOf(&j)); err != nil {
		return nil, err
	}
	if err := j.done(ctx, p, m, 1); err != nil {
		return nil, err
	}
	if err := LastTurn(ctx, s.turns); err != nil { // a server's too: its client may have taken turns
		return nil, err
	}
	counts := p.Count(ctx)
	if !attest {
		return counts, nil
	}
	return counts, m.Applied(spec, p.Applied(ctx, m))
}

// Loads returns the argv of an agent that runs loads one after the other, and then
// stays until it is stopped. Each load is a name followed by its options. Turns is nil unless the
// process takes turns: see TakeTurns.
func Loads(turns bench.Turns, loads ...[]string) []string {
	return LoadsBy([]string{agent.Path, "load"}, turns, loads...)
}

// Self is the file of this program. One that was replaced, or that lies in a container which tare has left, still has a
// name in /proc.
func Self() (string, error) {
	own := fmt.Sprintf("/proc/%d/exe", os.Getpid())
	self, err := os.Stat(own)
	if err != nil {
		return "", err
	}
	file, err := os.Executable()
	if err != nil {
		return "", err
	}
	if named, err := os.Stat(file); err != nil || !os.SameFile(named, self) {
		return own, nil
	}
	return file, nil
}

// LoadsBy is Loads of another program that runs loads as the agent does, such as tare itself. program is what begins
// its command line.
func LoadsBy(program []string, turns bench.Turns, loads ...[]string) []string {
	argv := slices.Clone(program)
	if taken(turns) {
		argv = append(argv, turn.Option)
	}
	for i, l := range loads {
		if i > 0 {
			argv = append(argv, agent.LoadSeparator)
		}
		argv = append(argv, l...)
	}
	return argv
}
