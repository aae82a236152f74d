package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/text/unit"
)

// A narrator is a watcher that is as loud as the user wants: with --quiet nothing is told,
// with --verbose also what happens around the trials.
type narrator struct {
	*watcher
	sitting app.Session
	logged  *progress // in the log; nil if there is none

	began    time.Time
	inside   time.Duration // trials, added up
	measured time.Duration // of that, in which the workload was at work; of failed trials it is not known
	slices   time.Duration // of that, in which something was measured
	trials   int
	prepares string // the cell for which something is prepared, empty where nothing is
	since    time.Time
	hooks    []*hookCount
	over     time.Time
}

var _ app.Observer = (*narrator)(nil)

// hookCount says how often a hook ran.
type hookCount struct {
	name  string
	n     int
	spent time.Duration
}

// RunBegins implements app.Observer.
func (n *narrator) RunBegins(s app.Session) {
	*n = narrator{watcher: n.watcher, sitting: s, began: n.now()}
	if n.log != nil {
		n.logged = n.newProgress(s, n.log)
	}
	if n.global.Quiet {
		n.graceful.Store(true)
		return
	}
	n.watcher.RunBegins(s)
	for _, p := range s.Planned.Probed {
		if p.Err != nil {
			n.verbose("probed %s: cannot be used: %v", p.Name, p.Err)
			continue
		}
		// A plain process has no version.
		n.verbose("%s", strings.TrimSuffix("probed "+p.Name+": "+versionLine(p.Info), ": "))
	}
}

// OnEvent implements app.Observer.
func (n *narrator) OnEvent(e run.Event) {
	if n.logged != nil {
		n.logged.observe(e)
	}
	if n.global.Quiet {
		return
	}
	if n.global.Verbose {
		n.follow(e)
	}
	n.watcher.OnEvent(e)
}

// RunOver implements app.Observer.
func (n *narrator) RunOver() {
	n.over = n.now()
	if n.global.Quiet {
		n.graceful.Store(false)
		return
	}
	n.watcher.RunOver()
}

// follow tells what --verbose asks for.
func (n *narrator) follow(e run.Event) {
	switch e := e.(type) {
	case run.SetUpBegan:
		n.prepared()
		n.prepares, n.since = analysis.CellName(&n.sitting.Header.Plan.Cells[e.Cell]), n.now()
	case run.TrialBegan:
		n.prepared()
	case run.TrialEnded:
		n.prepared()
		n.inside += e.Sample.Elapsed
		n.measured += e.Sample.Counted
		n.slices += app.MeasuredTime(n.sitting.Header.Metrics, &e.Sample)
		n.trials++
		n.progress.failures = 0 // so that it tells about each
	case run.HookEnded:
		n.hooked(e)
	case run.Ended:
		n.prepared()
		n.account()
	}
}

// aside tells something while a bar may be on the screen.
func (n *narrator) aside(format string, args ...any) {
	n.progress.end()
	n.verbose(format, args...)
}

// prepared tells that something was prepared, once the next thing happens.
func (n *narrator) prepared() {
	if n.prepares != "" {
		n.aside("prepared %s in %s", n.prepares, unit.FormatDuration(n.now().Sub(n.since)))
		n.prepares = ""
	}
}

// hooked tells about a hook when it first ran, and counts it.
func (n *narrator) hooked(e run.HookEnded) {
	name := strings.Join(append([]string{string(e.Hook.When), string(e.Hook.Do)}, e.Hook.Argv...), " ")
	i := slices.IndexFunc(n.hooks, func(h *hookCount) bool { return h.name == name })
	if i < 0 {
		i = len(n.hooks)
		n.hooks = append(n.hooks, &hookCount{name: name})
		result := "done"
		if e.Err != nil {
			result = e.Err.Error()
		}
		n.aside("hook %s: %s in %s", name, result, unit.FormatDuration(e.Took))
	}
	n.hooks[i].n++
	n.hooks[i].spent += e.Took
}

// account tells where the time went.
func (n *narrator) account() {
	for _, h := range n.hooks {
		n.aside("hook %s: ran %d times, %s in all", h.name, h.n, unit.FormatDuration(h.spent))
	}
	wall := n.now().Sub(n.began)
	share := func(d time.Duration) string {
		return unit.FormatDuration(d) + " (" + unit.FormatPercent(float64(d)/float64(max(wall, 1))) + ")"
	}
	n.aside("of %s, %s were inside %d trials, and %s of that in their workloads; the rest of a trial prepares it and "+
		"waits for a quiet machine",
		unit.FormatDuration(wall), share(n.inside), n.trials, share(n.measured))
	if n.slices > 0 {
		n.aside("%s measured something; the rest of a workload makes containers, prepares loads and warms them up",
			share(n.slices))
	}
}

// cleaned tells that a run has left nothing behind, unless its error says otherwise.
func (n *narrator) cleaned(id string, err error) {
	if !isKind(err, app.LeftBehind) && !n.over.IsZero() {
		n.verbose("cleaned up in %s: the engines are closed, the directory of run %s is removed",
			unit.FormatDuration(n.now().Sub(n.over)), id)
	}
}
