package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
)

// A Session is one sitting of a run: its beginning, or a resumption.
type Session struct {
	Header  bench.Header
	Planned *Planned
	Done    []bench.Sample  // in earlier sittings
	Block   time.Duration   // how long a block takes by earlier runs; 0 = not known
	Beside  []bench.Warning // of other runs that are under way when it begins
	Outlook *bench.Warning  // by an earlier run; nil without one, and where probably all will be decided

	Look       int  // at which look the run is when it ends: 1, and one more for each extension
	ExtendedAt int  // the first trial of the last extension; 0 = there is none
	WasPrecise bool // it had ended for that before it was extended, and does not again

	told      []string // the runs that the header says were under way
	writer    bench.RunWriter
	machine   machine
	interrupt <-chan struct{}
	barrier   func(ctx context.Context, block int, r bench.StopReason) (bench.StopReason, error)
}

// execute measures with a directory and engines of the run's own, and leaves
// nothing of them behind.
func (a *App) execute(ctx context.Context, dir *runDir, s Session) error {
	engines := s.Planned.engines()
	client := s.Planned.client()
	a.config.Observer.RunBegins(s)
	s.machine.warmUp = warmUpProcess(ctx, s.Planned.engineSite.Images)
	s.machine.traceEngines(s.Header.Plan.Cells, engines)
	failed := false
	var precision run.Precision
	if !s.WasPrecise {
		precision = analysis.NewPrecision(s.Header.Plan, s.Header.Metrics)
	}
	watch := &neighbourWatch{
		RunWriter: s.writer, told: s.told, look: func() []string { return a.othersUnderWay(s.Header.ID) },
	}
	_, runErr := run.Run(ctx, run.Options{
		Header: s.Header, Workload: s.Planned.Workload, Engines: engines, Client: client, Dir: dir.path,
		Writer: watch, Machine: s.machine,
		Clock: run.Monotonic(), Now: a.config.Now,
		Done:        s.Done,
		Extended:    s.ExtendedAt,
		Instruments: s.machine.instruments(),
		Precision:   precision,
		Barrier:     s.barrier,
		Interrupt:   s.interrupt,
		Stopped:     a.config.Stopped,
		Observe: func(e run.Event) {
			failed = failed || hasFailed(e)
			a.config.Observer.OnEvent(e)
		},
		Command: command,
	})
	a.config.Observer.RunOver()
	engines[clientName] = client
	err := CloseEngines(ctx, engines)
	if err == nil && failed {
		err = a.removeLeft(ctx, s.Planned, s.Header.ID)
	}
	if err != nil {
		return errors.Join(runErr, leftBehind(err), dir.close())
	}
	return errors.Join(runErr, leftBehind(dir.remove()))
}

// hasFailed reports whether an event is the end of a trial that failed.
func hasFailed(e run.Event) bool {
	ended, ok := e.(run.TrialEnded)
	return ok && ended.Sample.Outcome != bench.OK && ended.Sample.Outcome != bench.Unsupported
}

// errLeftBehind is how a sitting ends that could not clean up after itself.
var errLeftBehind = errors.New("tare could not remove everything that it made")

func leftBehind(err error) error {
	if err == nil {
		return nil
	}
	return &Problem{Kind: LeftBehind, Err: fmt.Errorf("%w: %w", errLeftBehind, err)}
}
