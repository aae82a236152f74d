package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/term"
	"github.com/tare-bench/tare/internal/text/unit"
)

func (a *invocation) showCommand() *cobra.Command {
	var format formatOptions
	var trials, applied bool
	var as string
	cmd := &cobra.Command{
		Use:   "show [RUN]",
		Short: "Show what a stored run says",
		Long: `Show analyses a stored run again and prints its report. RUN is an ID, a unique
part of one, a name, or "last", which is also the default.

With --trials it lists every trial, with --applied what the engines really
applied to the containers of each cell. With --as bucketbench it prints the two
tables of that program: rates by number of threads, and the times of each command.
With --as ab it prints, for each cell of a run of http, the block that users of
ApacheBench know.`,
		Args: atMostOne("a run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := format.check(a.global.JSON); err != nil {
				return err
			}
			if err := alone(format, trials, applied); err != nil {
				return err
			}
			if err := checkForm(as, a.global.JSON || format.some() || trials || applied); err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error {
				name := append(args, "last")[0]
				if trials {
					id, err := app.FindRun(cmd.Context(), s, name)
					if err != nil {
						return err
					}
					return a.showTrials(cmd.Context(), s, id)
				}
				r, err := app.OpenRun(cmd.Context(), s, name)
				switch {
				case err != nil:
					return err
				case as != "":
					return a.showAs(as, r)
				case applied:
					return a.showApplied(r)
				default:
					return a.report(r, format, nil)
				}
			})
		},
	}
	format.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&trials, "trials", false, "list every trial with its outcome")
	cmd.Flags().BoolVar(&applied, "applied", false, "show what was applied in each cell")
	cmd.Flags().StringVar(&as, "as", "", "print a run in the form of another `program`: bucketbench, from a run of throughput; ab, from a run of http")
	cmd.ValidArgsFunction = a.completeRuns
	completeFlag(cmd, "as", completeFixed(formBucketbench, formAB))
	return cmd
}

// alone refuses lists together with what is not theirs.
func alone(format formatOptions, trials, applied bool) error {
	switch {
	case trials && applied:
		return &usageError{errors.New("--trials and --applied are two lists"), "ask for one, then for the other"}
	case (trials || applied) && format.some():
		return &usageError{errors.New(inWords(formatFlags()) + " are for reports"), "--json prints --trials and --applied for programs"}
	}
	return nil
}

// shownApplied is what was applied in one cell.
type shownApplied struct {
	Cell    string         `json:"cell"`
	Engine  string         `json:"engine"`
	Applied *bench.Applied `json:"applied"` // of the first trial that got so far; null where none did
}

func (a *invocation) showApplied(r *bench.Run) error {
	all := make([]shownApplied, len(r.Header.Plan.Cells))
	for i, c := range r.Header.Plan.Cells {
		all[i] = shownApplied{Cell: c.FullName(), Engine: c.Engine}
	}
	for _, s := range r.Samples {
		if c := &all[s.Trial.Cell]; c.Applied == nil {
			c.Applied = s.Applied
		}
	}
	if a.global.JSON {
		return a.printJSON(all)
	}
	rows := [][]string{{"CELL", "RUNTIME", "NETWORK", "ROOT", "CGROUP", "SECCOMP", "CPUSET", "MEMORY", "IMAGE"}}
	for _, c := range all {
		if p := c.Applied; p != nil {
			rows = append(rows, []string{
				c.Cell, orDash(p.Runtime), orDash(p.Network), orDash(p.Storage), orDash(p.Cgroup), orDash(p.Security.Seccomp),
				orDash(p.Limits.CPUSet), memorySize(p.Limits.Memory), fmt.Sprintf("%.19s", orDash(p.Image)),
			})
		}
	}
	term.WriteTable(a.stdout, rows, term.Unlimited)
	return nil
}

func orDash(s string) string { return cmp.Or(s, "–") }

func memorySize(n int64) string {
	if n == 0 {
		return "–"
	}
	return unit.Format(float64(n), "B")
}

func (a *invocation) compareCommand() *cobra.Command {
	var format formatOptions
	var by string
	cmd := &cobra.Command{
		Use:   "compare RUN RUN...",
		Short: "Compare runs that were made apart: two days, two hosts",
		Long: `Compare sets runs against the first one, or runs of several hosts against those of
the first host. Such runs were not interleaved: host, day and neighbours are
confounded with what is compared, and the report says so. To compare engines or
images, put them into one run instead.

One run of each shows a shift and no verdict, because a run has an effect of its
own. Several runs of each, made in turn and told apart by a label, have verdicts:

  tare run --label side=before; tare run --label side=after   # six times
  tare compare RUN... --by label:side`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return &usageError{fmt.Errorf("%s takes two runs or more, got %d", cmd.CommandPath(), len(args)), "'tare list' shows the stored runs"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := format.check(a.global.JSON); err != nil {
				return err
			}
			if _, err := grouping(by); err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error {
				return a.compare(cmd.Context(), s, args, by, format)
			})
		},
	}
	format.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&by, "by", "auto", "what runs are `grouped` by: auto, host, run, or label:KEY")
	cmd.ValidArgsFunction = a.completeRuns
	completeFlag(cmd, "by", a.completeGrouping)
	return cmd
}

// grouping returns what runs of one group have in common; nil for the default.
func grouping(by string) (func(*bench.Header) string, error) {
	key, isLabel := cutLabel(by)
	switch {
	case by == "auto":
		return nil, nil
	case by == "host":
		return func(h *bench.Header) string { return h.Host.Hostname }, nil
	case by == "run":
		return func(h *bench.Header) string { return h.ID }, nil
	case isLabel:
		return func(h *bench.Header) string { return label(h.Plan.Labels, key) }, nil
	default:
		return nil, &usageError{fmt.Errorf("--by %q", by), "use auto, host, run or label:KEY"}
	}
}

func (a *invocation) compare(ctx context.Context, s bench.Store, names []string, by string, format formatOptions) error {
	group, err := grouping(by)
	if err != nil {
		return err
	}
	var runs []*bench.Run
	for _, name := range names {
		r, err := app.OpenRun(ctx, s, name)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(runs, func(o *bench.Run) bool { return o.Header.ID == r.Header.ID }) {
			return &usageError{fmt.Errorf("run %s is named twice", r.Header.ID), "'tare list' shows the stored runs"}
		}
		runs = append(runs, r)
	}
	if key, ok := cutLabel(by); ok && !slices.ContainsFunc(runs, func(r *bench.Run) bool { return hasLabel(r.Header.Plan.Labels, key) }) {
		return &usageError{fmt.Errorf("none of these runs has the label %q", key), "runs get labels with --label KEY=VALUE; 'tare show RUN --json' lists them"}
	}
	contrast, err := analysis.Compare(runs, analysis.CompareOptions{Group: group, Running: a.underWay})
	if err != nil {
		return err
	}
	return a.render(report.NewComparison(contrast), format)
}

func cutLabel(by string) (key string, ok bool) {
	key, ok = strings.CutPrefix(by, "label:")
	return key, ok && key != ""
}

func hasLabel(labels []bench.Label, key string) bool {
	return slices.ContainsFunc(labels, func(l bench.Label) bool { return l.Key == key })
}

func label(labels []bench.Label, key string) string {
	for _, l := range labels {
		if l.Key == key {
			return l.Value
		}
	}
	return ""
}
