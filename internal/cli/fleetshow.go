package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/cluster"
	report "github.com/tare-bench/tare/internal/report/fleet"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
	"github.com/tare-bench/tare/internal/text/unit"
)

// fleetShowOptions say how a fleet is shown.
type fleetShowOptions struct {
	format, output string
	all            bool
}

// The forms of a report of a fleet.
const (
	fleetText = "text"
	fleetJSON = "json"
	fleetCSV  = "csv"
	fleetHTML = "html"
)

func fleetFormats() []string { return []string{fleetText, fleetJSON, fleetCSV, fleetHTML} }

func (a *invocation) fleetShowCommand() *cobra.Command {
	var o fleetShowOptions
	cmd := &cobra.Command{
		Use:   "show [FLEET]",
		Short: "Show which nodes of a stored fleet are odd",
		Long: `Show judges a stored fleet again and says which nodes are slow, fast or unsteady,
how far nodes honestly differ, and what was not measured. It needs no cluster.
FLEET is an ID, a unique beginning or end of one, or "last", which is the default.

The run of every node is stored, too: 'tare list --label fleet=FLEET' lists them.`,
		Example: `  tare fleet show --all
  tare fleet show last --format html -o fleet.html`,
		Args: atMostOne("a fleet"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.format != "" && !slices.Contains(fleetFormats(), o.format) {
				return &usageError{
					fmt.Errorf("invalid value %q for --format", o.format), "the formats are " + sentenceList(fleetFormats()),
				}
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error {
				return a.showFleet(cmd.Context(), s, append(args, "")[0], o)
			})
		},
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "show every node and link, not only those that stand out")
	cmd.Flags().StringVar(&o.format, "format", "", "`name` of the form: "+sentenceList(fleetFormats())+" (default text)")
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "write to `file`, which must not exist, instead of stdout")
	cmd.ValidArgsFunction = a.completeFleets
	completeFlag(cmd, "format", completeFixed(fleetFormats()...))
	return cmd
}

// showFleet judges a stored fleet, and writes what it found.
func (a *invocation) showFleet(ctx context.Context, s bench.Store, name string, o fleetShowOptions) error {
	f, err := app.FindFleet(ctx, s, name)
	if err != nil {
		return err
	}
	in, unread, err := app.JudgeFleet(ctx, s, f)
	if err != nil {
		return err
	}
	if unread != nil {
		a.notice("some runs cannot be used: %v", unread)
	}
	d := report.New(*in)
	format := o.format
	switch {
	case format != "":
	case a.global.JSON:
		format = fleetJSON
	case strings.HasSuffix(o.output, ".html"):
		format = fleetHTML
	}
	write := func(w io.Writer) error { return a.writeFleet(w, d, format, o.all) }
	if o.output == "" || o.output == "-" {
		return write(a.stdout)
	}
	return writeNewFile("--output", o.output, write)
}

func (a *invocation) writeFleet(w io.Writer, d *report.Document, format string, all bool) error {
	switch format {
	case fleetJSON:
		return report.WriteJSON(w, d)
	case fleetCSV:
		return report.WriteCSV(w, d)
	case fleetHTML:
		return report.WritePage(w, d)
	}
	color, err := a.color()
	if err != nil {
		return err
	}
	return report.WriteText(w, d, report.Options{Width: a.width(), Color: color, All: all})
}

// completeFleets proposes stored fleets.
func (a *invocation) completeFleets(
	cmd *cobra.Command, args []string, _ string,
) (all []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		_ = a.withRuns(cmd.Context(), func(s bench.Store) error {
			ids, err := app.Fleets(cmd.Context(), s)
			all = ids
			return err
		})
	}
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// fleetStatus is how far a fleet is, as --json prints it.
type fleetStatus struct {
	ID         string              `json:"id"`
	Experiment string              `json:"experiment"`
	Cluster    string              `json:"cluster"`
	Namespace  string              `json:"namespace"`
	Nodes      int                 `json:"nodes"`
	Stored     bool                `json:"stored"`     // here
	InCluster  bool                `json:"in_cluster"` // there are objects of it
	Active     int                 `json:"active_jobs"`
	elsewhere  bool                // in another namespace than that of the command
	gone       bool                // the cluster was asked, and has nothing of it
	States     map[fleet.State]int `json:"states,omitempty"` // how many nodes, of the first pass, by what is stored here
}

func (a *invocation) fleetStatusCommand() *cobra.Command {
	var o clusterOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List fleets: those stored here, and those in the cluster",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withRuns(cmd.Context(), func(s bench.Store) error { return a.fleetStatus(cmd.Context(), s, o) })
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (a *invocation) fleetStatus(ctx context.Context, s bench.Store, o clusterOptions) error {
	ids, err := app.Fleets(ctx, s)
	if err != nil {
		return err
	}
	all := []*fleetStatus{}
	for _, id := range ids {
		f, err := app.FindFleet(ctx, s, id)
		if err != nil {
			return err
		}
		one := newFleetStatus(f)
		one.Stored = true
		one.States = map[fleet.State]int{}
		for _, n := range f.Nodes {
			state := fleet.Waiting
			if o := f.OutcomeOf(n.Name, 1); o != nil {
				state = o.State
			}
			one.States[state]++
		}
		all = append(all, one)
	}
	c, err := a.openCluster(o)
	if err != nil {
		a.notice("only what is stored here is shown: %v", err)
		return a.printFleetStatus(all)
	}
	found, err := fleetsThere(ctx, s, c, ids)
	for _, one := range all {
		one.gone = err == nil && one.Cluster == c.Server()
	}
	for _, x := range found {
		f := &x.Plan.Fleet
		i := slices.IndexFunc(all, func(s *fleetStatus) bool { return s.ID == f.ID })
		if i < 0 {
			i = len(all)
			all = append(all, newFleetStatus(f))
		}
		all[i].InCluster, all[i].Active, all[i].gone = true, x.Active, false
		all[i].elsewhere = f.Namespaces[0] != c.Namespace()
	}
	return errors.Join(err, a.printFleetStatus(all))
}

func newFleetStatus(f *fleet.Fleet) *fleetStatus {
	return &fleetStatus{
		ID: f.ID, Experiment: f.Experiment, Cluster: f.Cluster, Namespace: strings.Join(f.Namespaces[:1], ""),
		Nodes: len(f.Nodes),
	}
}

func (a *invocation) printFleetStatus(all []*fleetStatus) error {
	if a.global.JSON {
		return a.printJSON(all)
	}
	if len(all) == 0 {
		a.notice("there are no fleets: 'tare fleet run' measures one")
	}
	for _, s := range all {
		parts := []string{s.ID, plain.Line(s.Experiment) + " on " + unit.FormatCount(s.Nodes, "node")}
		for _, state := range []fleet.State{fleet.Done, fleet.Running, fleet.Waiting, fleet.Failed, fleet.Gone} {
			if n := s.States[state]; n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, state))
			}
		}
		switch {
		case s.InCluster && s.Active > 0:
			parts = append(parts, unit.FormatCount(s.Active, "Job")+" under way in the cluster")
		case s.InCluster:
			parts = append(parts, "still in the cluster")
		case s.gone && s.States[fleet.Running]+s.States[fleet.Waiting] > 0:
			parts = append(parts, "no longer in the cluster")
		}
		if s.elsewhere {
			parts = append(parts, "namespace "+plain.Line(s.Namespace))
		}
		if !s.Stored {
			parts = append(parts, "not stored here: tare fleet gather "+s.ID)
		}
		term.WriteWrapped(a.stdout, "", strings.Join(parts, ", "), a.width())
	}
	return nil
}

func (a *invocation) fleetCleanCommand() *cobra.Command {
	var o clusterOptions
	var yes bool
	cmd := &cobra.Command{
		Use:   "clean [FLEET...]",
		Short: "Remove fleets from the cluster, and nothing else",
		Long: `Clean removes the objects of fleets from the cluster: those that are named, or
all of the namespace that have ended and whose results are stored here. What is
stored here stays. A fleet that is named is removed even if it is still
measured, or nobody has read its results.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := a.newApp()
			if err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error { return a.fleetClean(cmd.Context(), t, s, o, args) })
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	_ = cmd.Flags().MarkHidden("yes") // nothing is asked; scripts may say so
	cmd.ValidArgsFunction = a.completeFleets
	return cmd
}

// fleetsCalled are the IDs of the fleets that are named: by the ID, or by a beginning or end that only one has. space is
// the namespace of the command.
func fleetsCalled(found []cluster.Found, names []string, space string) (ids []string, err error) {
	var all []string
	for _, x := range found {
		all = append(all, x.Plan.Fleet.ID)
	}
	for _, name := range names {
		var called []string
		for _, id := range all {
			if id == name {
				called = []string{id}
				break
			}
			if name != "" && (strings.HasPrefix(id, name) || strings.HasSuffix(id, name)) {
				called = append(called, id)
			}
		}
		switch len(called) {
		case 0:
			return nil, &app.Problem{
				Kind: app.NoFleet, Names: all,
				Err: fmt.Errorf("no fleet %.80q is in namespace %s, nor in that of a stored fleet", name, space),
			}
		case 1:
			ids = append(ids, called[0])
		default:
			return nil, &app.Problem{
				Kind: app.NoFleet, Names: called,
				Err: fmt.Errorf("%.80q matches %d fleets in the cluster: %s", name, len(called), strings.Join(called, ", ")),
			}
		}
	}
	return ids, nil
}

// cleanedFleet is what clean has done, as --json prints it.
type cleanedFleet struct {
	ID      string `json:"id"`
	Removed int    `json:"objects"`
}

// isRead reports whether all that the nodes of a fleet have measured, in each pass, is stored here.
func isRead(ctx context.Context, s bench.Store, x *cluster.Found) bool {
	f, err := app.FindFleet(ctx, s, x.Plan.Fleet.ID)
	if err != nil {
		return false
	}
	unread := func(name string, pass int) bool {
		o := f.OutcomeOf(name, pass)
		return o == nil || o.State == fleet.Waiting || o.State == fleet.Running
	}
	if slices.ContainsFunc(f.Nodes, func(n fleet.Node) bool { return unread(n.Name, 1) }) {
		return false
	}
	return len(x.Plan.Fleet.Starts) < 2 || !slices.ContainsFunc(x.Passes[1], func(i int) bool {
		return unread(x.Plan.Fleet.Nodes[i].Name, 2)
	})
}

func (a *invocation) fleetClean(
	ctx context.Context, t *app.App, s bench.Store, o clusterOptions, named []string,
) error {
	c, err := a.openCluster(o)
	if err != nil {
		return err
	}
	found, err := fleetsThere(ctx, s, c, named)
	if err != nil {
		return err
	}
	ids, err := fleetsCalled(found, named, c.Namespace())
	if err != nil {
		return err
	}
	all := []cleanedFleet{}
	h, done := a.fleetHooks(nil, false)
	defer done()
	for i := range found {
		x := &found[i]
		id := x.Plan.Fleet.ID
		if len(named) > 0 && !slices.Contains(ids, id) {
			continue
		}
		if len(named) == 0 && !x.Over(time.Now()) {
			a.notice("fleet %s may still be measured: it stays, unless you name it", id)
			continue
		}
		if len(named) == 0 && len(x.Plan.Fleet.Starts) > 0 && !isRead(ctx, s, x) {
			a.notice("fleet %s has results that are not stored here: it stays, unless you name it; 'tare fleet gather %s' reads "+
				"them", id, id)
			continue
		}
		n, cleanErr := t.CleanFleet(ctx, c, x.Plan.Fleet.Namespaces[0], id, h)
		err = errors.Join(err, cleanErr)
		all = append(all, cleanedFleet{id, n})
	}
	done()
	if a.global.JSON {
		return errors.Join(err, a.printJSON(all))
	}
	if len(all) == 0 && err == nil {
		a.notice("nothing to clean")
	}
	for _, x := range all {
		fmt.Fprintf(a.stdout, "removed fleet %s: %s\n", x.ID, unit.FormatCount(x.Removed, "object"))
	}
	return err
}
