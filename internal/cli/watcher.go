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

// Begins says what is about to be measured, and what is left out.
func (w *watcher) Begins(s app.Sitting) {
	w.graceful.Store(true)
	w.announce(s)
	w.progress = w.newProgress(s.Header)
	w.progress.extends(s)
}

func (w *watcher) Happened(e run.Event) { w.progress.observe(e) }

func (w *watcher) Over() {
	w.progress.end()
	w.graceful.Store(false)
}

func (w *watcher) Swept(l bench.Leftover) {
	w.verbose("left by a trial that failed: %s %s of %s", l.Kind, l.ID, l.Engine)
}

func (w *watcher) Silent(engine string, why error) {
	w.verbose("%s cannot be asked what is left with it: %v", engine, why)
}

func (a *invocation) announce(s app.Sitting) {
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
	if w := app.Undecidable(plan, s.Header.Metrics, s.Block); w != nil {
		a.notice("%s → %s", w.Text, w.Hint)
	}
	for _, p := range s.Planned.LeftOut() {
		a.notice("left out: %s: %s", p.Name, p.Err)
	}
}
