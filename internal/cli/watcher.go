package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/text/unit"
)

// watcher tells people on stderr what a run does.
type watcher struct {
	*invocation
	progress *progress
	first    *firstBlock  // nil where it was known how long a block takes, or once it is
	judged   *firstBlocks // nil where it was known what will be undecided, or once it is
}

var _ app.Observer = (*watcher)(nil)

// RunBegins says what is about to be measured, and what is skipped.
func (w *watcher) RunBegins(s app.Session) {
	w.graceful.Store(true)
	w.announce(s)
	w.progress = w.newProgress(s, w.stderr)
	w.first, w.judged = nil, nil
	if len(s.Done) > 0 {
		return
	}
	if s.Block == 0 {
		w.first = &firstBlock{plan: s.Header.Plan, metrics: s.Header.Metrics, hosts: hostsOf(s)}
	}
	if s.Outlook == nil {
		w.judged = &firstBlocks{newSoFar(s)}
	}
}

func (w *watcher) OnEvent(e run.Event) {
	w.progress.observe(e)
	switch e := e.(type) {
	case run.TrialBegan:
		if w.judged != nil && w.judged.completeBefore(e.Trial) {
			w.between(w.judged.warning())
			w.judged = nil
		}
	case run.TrialEnded:
		if w.judged != nil {
			w.judged.add(e.Sample)
		}
		if w.first != nil && w.first.completedBy(e.Sample) {
			w.between(w.first.warning())
			w.first = nil
		}
	}
}

// between tells something between two trials; nothing if it is empty.
func (w *watcher) between(text string) {
	if text != "" {
		w.progress.end()
		w.notice("%s", text)
	}
}

func (w *watcher) RunOver() {
	w.progress.end()
	w.graceful.Store(false)
}

func (w *watcher) Removed(l bench.Leftover) {
	w.verbose("removing what a failed trial left behind: %s %s of %s", l.Kind, l.ID, l.Engine)
}

func (w *watcher) EngineUnreachable(engine string, why error) {
	w.verbose("cannot ask %s what was left behind: %v", engine, why)
}

func (w *watcher) NotEnded(why error) { w.notEnded(why) }

func (a *invocation) announce(s app.Session) {
	var cells []string
	control := ""
	plan := s.Header.Plan
	for _, c := range plan.Cells {
		if c.Control {
			control = " + control"
			continue
		}
		cells = append(cells, c.FullName())
	}
	a.notice("%s: %s%s", plan.Name, strings.Join(cells, ", "), control)
	for _, w := range s.Beside {
		a.notice("%s → %s", w.Text, w.Hint)
	}
	if s.ExtendedAt > 0 {
		a.announceMore(s)
		return
	}
	stops := stopRule(plan, s.Header.Metrics)
	if s.Block > 0 {
		stops += "; takes at most about " + unit.FormatDuration(app.LongestRun(plan, s.Block))
	}
	a.notice("stops %s", stops)
	if text := longerThanBudget(plan, s.Block); text != "" {
		a.notice("%s", text)
	}
	if text := cmp.Or(undecidable(plan, s.Header.Metrics, hostsOf(s), s.Block), toldAs(s.Outlook)); text != "" {
		a.notice("%s", text)
	}
	if out := app.OmittedEngines(plan); out != "" {
		a.notice("%s", out)
	}
	a.announceSkipped(s.Planned.LeftOut(), len(plan.LeftOut) > 0)
}

// announceSkipped says which engines cannot be used here, or on some host: in one line where a run takes only a few
// of all.
func (a *invocation) announceSkipped(skipped []app.Probed, few bool) {
	var here, there []string
	for _, p := range skipped {
		switch {
		case !few:
			a.notice("skipped: %s: %s", p.Name, p.Err)
		case len(p.Lacking) > 0:
			there = append(there, p.Name+" (not on "+strings.Join(p.Lacking, ", ")+")")
		default:
			here = append(here, p.Name)
		}
	}
	if here != nil {
		a.notice("cannot be used here: %s; 'tare doctor' says why", strings.Join(here, ", "))
	}
	if there != nil {
		a.notice("cannot be used on every host: %s; 'tare doctor --remote HOST' says why", strings.Join(there, ", "))
	}
}

// longerThanBudget warns of blocks of which one takes longer than the budget; empty if none does.
func longerThanBudget(plan bench.Plan, block time.Duration) string {
	if plan.Budget <= 0 || block <= plan.Budget {
		return ""
	}
	return fmt.Sprintf("one block takes about %s, which is longer than the budget: a block that has begun is finished",
		unit.FormatDuration(block))
}

// undecidable warns of a plan with too few blocks for a verdict, as app.Undecidable; empty if
// there is nothing to warn of.
func undecidable(plan bench.Plan, metrics []bench.Metric, hosts int, block time.Duration) string {
	return toldAs(app.Undecidable(plan, metrics, hosts, block))
}

// hostsOf is how many hosts measure a session together.
func hostsOf(s app.Session) int {
	if s.Header.Joint == nil {
		return 1
	}
	return len(s.Header.Joint.Hosts)
}

// toldAs is a warning with what to do about it; empty without one.
func toldAs(w *bench.Warning) string {
	if w == nil {
		return ""
	}
	return w.Text + " → " + w.Hint
}

// firstBlock measures how long a block takes where no earlier run tells: it is the first one in
// which nothing fails, since a failure can take any time.
type firstBlock struct {
	plan    bench.Plan
	metrics []bench.Metric
	hosts   int
	block   int
	trials  int
	took    time.Duration
}

// completedBy reports whether a trial is the last one of the block.
func (f *firstBlock) completedBy(s bench.Sample) bool {
	if s.Trial.Warmup() {
		return false
	}
	if s.Trial.Block != f.block {
		f.block, f.trials, f.took = s.Trial.Block, 0, 0
	}
	if s.Outcome == bench.OK || s.Outcome == bench.Unsupported {
		f.trials++
		f.took += s.Elapsed
	}
	return f.trials == len(f.plan.Cells)
}

// warning says what could not be said before the run, since it takes the time of a block.
func (f *firstBlock) warning() string {
	if undecidable(f.plan, f.metrics, f.hosts, 0) != "" { // it has been told
		return longerThanBudget(f.plan, f.took)
	}
	return cmp.Or(undecidable(f.plan, f.metrics, f.hosts, f.took), longerThanBudget(f.plan, f.took))
}

// firstBlocks are as many as show how much values scatter, where no earlier run tells.
type firstBlocks struct{ soFar }

// completeBefore reports whether there are enough of them when a trial begins.
func (f *firstBlocks) completeBefore(t bench.Trial) bool { return t.Block >= analysis.MinPairs }

// warning says what the run will probably leave undecided.
func (f *firstBlocks) warning() string {
	return toldAs(app.Outlook(f.run.Header.Plan, &f.run, fmt.Sprintf("the first %d blocks", analysis.MinPairs)))
}
