package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// moreOptions are the flags that extend a finished run.
type moreOptions struct {
	app.More
	budget string
}

func (o *moreOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.budget, "budget", "", "extend a finished run by this `time`, such as 5m")
	f.IntVar(&o.Blocks, "blocks", 0, "extend a finished run by `N` blocks")
}

// read checks the flags, and reports whether there are any.
func (o *moreOptions) read(f *pflag.FlagSet) (extends bool, err error) {
	if f.Changed("blocks") && o.Blocks < 1 {
		return false, &usageError{fmt.Errorf("--blocks %d", o.Blocks), "--blocks takes how many blocks more, 1 or more"}
	}
	if !f.Changed("budget") {
		return f.Changed("blocks"), nil
	}
	o.Budget, err = unit.ParseDuration(o.budget)
	if err == nil && o.Budget <= 0 {
		err = errors.New("it is no time")
	}
	if err != nil {
		err = fmt.Errorf("--budget %s: %w", o.budget, err)
		return false, &usageError{err, "--budget takes how much more time, such as 5m"}
	}
	return true, nil
}

// extend goes on with a finished run.
func (a *invocation) extend(
	ctx context.Context, s bench.Store, args []string, more app.More, format formatOptions,
) error {
	t, err := a.newApp()
	if err != nil {
		return err
	}
	stored, err := app.Extensible(ctx, s, append(args, "")[0])
	if p := (*app.Problem)(nil); errors.As(err, &p) && p.Kind == app.Unfinished && t.UnderWay(p.Run) {
		return &app.Problem{Kind: app.UnderWay, Err: fmt.Errorf("run %s is under way", p.Run), Run: p.Run}
	}
	if err != nil {
		return err
	}
	if err := a.beginLog(format.dir); err != nil {
		return err
	}
	id, err := t.Extend(ctx, s, stored, more, app.Options{Interrupt: a.interrupted})
	if id == "" {
		return a.dropLog(err)
	}
	return a.conclude(ctx, s, id, format, false, err)
}

// announceMore says what an extension is about to measure.
func (a *invocation) announceMore(s app.Session) {
	plan, done := s.Header.Plan, app.TimedTrials(s.Done)/len(s.Header.Plan.Cells)-s.Header.Plan.Warmup
	var rules []string
	if precision := precisionText(plan, s.Header.Metrics); precision != "" && !s.WasPrecise {
		rules = append(rules, "once every primary comparison is known to "+precision)
	}
	if plan.Budget > 0 {
		rules = append(rules, "after "+unit.FormatDuration(timeLeft(s).Round(time.Second))+" more")
	}
	rules = append(rules, "after "+unit.FormatCount(plan.MaxBlocks-done, "block")+" more")
	a.notice("run %s goes on after %s; stops %s",
		s.Header.ID, unit.FormatCount(done, "block"), strings.Join(rules, ", or "))
	if w := app.TooFewMore(s); w != nil {
		a.notice("%s → %s", w.Text, w.Hint)
	}
}

// timeLeft is what earlier sittings have left of the budget.
func timeLeft(s app.Session) time.Duration {
	left := s.Header.Plan.Budget
	for _, done := range s.Done {
		left -= done.Elapsed
	}
	return left
}

// extends has the progress of a session that extends a run count only what is added to it.
func (p *progress) extends(s app.Session) {
	if s.ExtendedAt == 0 {
		return
	}
	p.before = s.ExtendedAt
	p.blocksBefore = app.TimedTrials(s.Done[:s.ExtendedAt])/len(p.plan.Cells) - p.plan.Warmup
	if p.plan.Budget > 0 {
		p.plan.Budget = max(timeLeft(s), 1)
	}
}

// more says at which block an extended run is, and which of the extension that is.
func (p *progress) more() string {
	before := p.blocksBefore
	nth := fmt.Sprintf("block %d, +%d", p.block+1, p.block+1-before)
	if p.plan.Budget > 0 { // then the blocks hardly ever end it
		return nth
	}
	return fmt.Sprintf("%s of %d", nth, p.plan.MaxBlocks-before)
}
