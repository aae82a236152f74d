package cli

import (
	"fmt"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
)

// forms lists the forms of other programs, and with each the workload whose runs it is for.
func forms() (names []string, of map[string]bench.Workload, all map[string]bench.Form) {
	of, all = map[string]bench.Workload{}, map[string]bench.Form{}
	for _, w := range app.Workloads() {
		former, ok := w.(bench.Former)
		if !ok {
			continue
		}
		for _, f := range former.Forms() {
			names, of[f.Name], all[f.Name] = append(names, f.Name), w, f
		}
	}
	return names, of, all
}

// checkForm refuses forms that there are not, and one together with another.
func checkForm(as string, others bool) error {
	names, of, _ := forms()
	switch {
	case as == "":
		return nil
	case of[as] == nil:
		return &usageError{fmt.Errorf("--as %q", as), "the forms are " + sentenceList(names)}
	case others:
		return &usageError{fmt.Errorf("--as %s cannot be combined with another format or list",
			as), "omit --json, --csv, --markdown, --trials and --applied; 'tare export RUN -f json' has every value"}
	}
	return nil
}

// showAs prints a run in the form of another program.
func (a *invocation) showAs(as string, r *bench.Run) error {
	_, of, all := forms()
	if is, want := r.Header.Plan.Workload, of[as].Name(); is != want {
		return &usageError{
			fmt.Errorf("run %s has the workload %s; --as %s needs %s", r.Header.ID, is, as, want),
			"'tare run " + want + "' makes such a run",
		}
	}
	if n := app.FailedTrials(r); n > 0 {
		a.notice("failed trials, which are left out: %d; 'tare show %s --trials' says why", n, r.Header.ID)
	}
	if err := all[as].Write(a.stdout, r); err != nil {
		return fmt.Errorf("run %s: %w", r.Header.ID, err)
	}
	return nil
}
