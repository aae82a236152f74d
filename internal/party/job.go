package party

import (
	"context"
	"maps"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
)

// A Job is the work of one container, alone in its trial, and how it is heard of.
type Job struct {
	Spec bench.Spec
	// Read waits for the work of the party that does it, and returns what it found.
	Read func(context.Context, *Party) (*load.Report, error)
}

// LoadJob is a job of one load with its options.
func LoadJob(spec bench.Spec, name string, options map[string]string) Job {
	spec.Argv = Loads(append([]string{name}, load.Words(options)...))
	return Job{spec, func(ctx context.Context, p *Party) (*load.Report, error) {
		reports, err := p.Reports(ctx, 1)
		if err != nil {
			return nil, err
		}
		return reports[0], nil
	}}
}

// Stage returns a Fixture that has the engine prepare, before each trial, what
// the trial will create.
func Stage(e bench.Engine, specs ...bench.Spec) bench.Fixture { return stage{e, specs} }

// StageJobs is Stage for the jobs of a trial.
func StageJobs(e bench.Engine, jobs []Job) bench.Fixture {
	specs := make([]bench.Spec, len(jobs))
	for i, j := range jobs {
		specs[i] = j.Spec
	}
	return Stage(e, specs...)
}

type stage struct {
	engine bench.Engine
	specs  []bench.Spec
}

func (s stage) Reset(ctx context.Context) error {
	for _, spec := range s.specs {
		if err := s.engine.Prepare(ctx, spec); err != nil {
			return err
		}
	}
	return nil
}

func (stage) Remove(context.Context) error { return nil }

// Work is a trial of jobs, one after the other: it records what they find, what
// the kernel counted for them, and what the engine applied to the first.
func Work(ctx context.Context, e bench.Engine, m bench.Meter, jobs []Job) error {
	var counts []*Counts
	for i, j := range jobs {
		p, err := j.work(ctx, e, m)
		if err != nil {
			return err
		}
		counts = append(counts, p.Count(ctx))
		if i == 0 {
			if err := m.Applied(j.Spec, p.Applied(ctx)); err != nil {
				p.End()
				return err
			}
		}
		p.End()
	}
	Record(m, counts...)
	return nil
}

// work does one job. The caller ends the party, unless there is an error.
func (j Job) work(ctx context.Context, e bench.Engine, m bench.Meter) (*Party, error) {
	p, err := Start(ctx, e, j.Spec, m, "")
	if err != nil {
		return nil, err
	}
	report, err := j.Read(ctx, p)
	if err != nil {
		p.End()
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(report.Values)) {
		m.Record(name, report.Values[name])
	}
	for _, name := range slices.Sorted(maps.Keys(report.Distributions)) {
		m.Distribution(name, string(report.Distributions[name]))
	}
	for _, note := range report.Notes {
		m.Note(note)
	}
	return p, nil
}
