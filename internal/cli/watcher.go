package cli

import (
	"strings"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/text/unit"
)

// watcher tells people on stderr what a run does.
type watcher struct {
	*invocation
	progress *progress
}

var _ app.Observer = (*watcher)(nil)

// RunBegins says what is about to be measured, and what is skipped.
func (w *watcher) RunBegins(s app.Session) {
	w.graceful.Store(true)
	w.announce(s)
	w.progress = w.newProgress(s.Header)
	w.progress.extends(s)
}

func (w *watcher) OnEvent(e run.Event) { w.progress.observe(e) }

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
	if s.ExtendedAt > 0 {
		a.announceMore(s)
		return
	}
	stops := stopRule(plan, s.Header.Metrics)
	if s.Block > 0 {
		stops += "; takes at most about " + unit.FormatDuration(app.LongestRun(plan, s.Block))
	}
	a.notice("stops %s", stops)
	if plan.Budget > 0 && s.Block > plan.Budget {
		a.notice("one block takes about %s, which is longer than the budget: a block that has begun is finished",
			unit.FormatDuration(s.Block))
	}
	if w := app.Undecidable(plan, s.Header.Metrics, s.Block); w != nil {
		a.notice("%s → %s", w.Text, w.Hint)
	}
	if out := app.OmittedEngines(plan); out != "" {
		a.notice("%s", out)
	}
	for _, p := range s.Planned.LeftOut() {
		a.notice("skipped: %s: %s", p.Name, p.Err)
	}
}
