package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/term"
)

// formNames are the forms of other programs.
func formNames() (all []string) {
	for _, f := range app.Forms() {
		all = append(all, f.Name)
	}
	return all
}

// formDocs says what the forms are, in a paragraph.
func formDocs() string {
	var all []string
	for _, f := range app.Forms() {
		all = append(all, fmt.Sprintf("--as %s prints a run of %s as that program does: %s.", f.Name, f.Workload, f.Doc))
	}
	return strings.Join(term.Wrap(strings.Join(all, " "), 79), "\n")
}

// checkForm refuses forms that there are not, and one together with another.
func checkForm(as string, others bool) error {
	switch {
	case as == "":
		return nil
	case !slices.Contains(formNames(), as):
		return &usageError{fmt.Errorf("--as %q", as), "the forms are: " + sentenceList(formNames())}
	case others:
		return &usageError{
			fmt.Errorf("--as %s cannot be combined with another format or list", as),
			"leave the other one out; 'tare export RUN' has every value",
		}
	}
	return nil
}

// showAs prints a run in the form of another program, which has been checked.
func (a *invocation) showAs(as string, r *bench.Run) error {
	all := app.Forms()
	f := all[slices.IndexFunc(all, func(f app.Form) bool { return f.Name == as })]
	if is := r.Header.Plan.Workload; is != f.Workload {
		return &usageError{
			fmt.Errorf("run %s has the workload %s; --as %s needs %s", r.Header.ID, is, as, f.Workload),
			"'tare run " + f.Workload + "' makes such a run",
		}
	}
	if n := app.FailedTrials(r); n > 0 {
		a.notice("failed trials, which are left out: %d; 'tare show %s --trials' says why", n, r.Header.ID)
	}
	if err := f.Write(a.stdout, r); err != nil {
		return fmt.Errorf("run %s: %w", r.Header.ID, err)
	}
	return nil
}
