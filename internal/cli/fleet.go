package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/cli/manual"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/cluster"
	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/fleet/pairs"
	"github.com/tare-bench/tare/internal/image/program"
	"github.com/tare-bench/tare/internal/text/unit"
)

func (a *invocation) fleetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Measure all nodes of a Kubernetes cluster, and say which are odd",
		Long: `Fleet measures every node of a Kubernetes cluster with the same experiment, in
rounds that begin everywhere at the same times, and says which nodes are slower
or faster than the others, by how much, and what else is different about them.

It makes one Job for each node, a few ConfigMaps and a Secret, and removes them
when everything is read. No server runs in the cluster, and no node is changed.

To begin with:
  tare fleet image --push REF   put tare's image where the nodes can pull it
  tare fleet plan --image REF   what would be done; nothing is made
  tare fleet run --image REF    measure, and show which nodes are odd`,
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.fleetRunCommand(), a.fleetPlanCommand(), a.fleetStatusCommand(), a.fleetGatherCommand(), a.fleetShowCommand(),
		a.fleetManifestsCommand(), a.fleetRBACCommand(), a.fleetImageCommand(), a.fleetCleanCommand(),
	)
	for _, c := range cmd.Commands() {
		manual.Arrange(c, fleetFlagGroups()...)
	}
	return cmd
}

// fleetFlagGroups are the groups in which help shows the flags of commands for fleets.
func fleetFlagGroups() []manual.Group {
	return []manual.Group{
		{Title: "What to measure", Flags: []string{
			"param", "host", "engine", "network", "throughput", "rounds", "round", "confirm", "smallest",
		}},
		{Title: "Nodes", Flags: []string{"nodes", "toleration", "group-by"}},
		{Title: "Pods", Flags: []string{"image", "pull-secret", "cpus", "memory", "label"}},
		{Title: "Cluster", Flags: []string{"kubeconfig", "context", "namespace", "qps"}},
	}
}

// clusterOptions are the flags that say which cluster is meant.
type clusterOptions struct {
	kubeconfig, context, namespace string
	qps                            float64
}

func (o *clusterOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says how to reach the cluster (default $KUBECONFIG, else "+
		"~/.kube/config)")
	f.StringVar(&o.context, "context", "", "`name` of the context in it (default its current one)")
	f.StringVar(&o.namespace, "namespace", "", "`name` of the namespace for all objects (default that of the context)")
	f.Float64Var(&o.qps, "qps", 20, "the most requests per second to the API server: `N`")
}

// openCluster finds the cluster.
func (a *invocation) openCluster(o clusterOptions) (*kube.Client, error) {
	if o.qps <= 0 {
		return nil, &usageError{fmt.Errorf("--qps %g is not above zero", o.qps), "20 is usual"}
	}
	c, err := kube.Open(kube.Options{
		Kubeconfig: o.kubeconfig, Context: o.context, Namespace: o.namespace, QPS: o.qps, Tool: "tare/" + toolVersion(),
		Trouble: func(err error) { a.verbose("%v", err) },
	})
	if err != nil {
		return nil, &usageError{err: err}
	}
	return c, nil
}

// reach asks a cluster for its version, which a server that does not answer ends soon. Some may not ask for it.
func reach(ctx context.Context, c *kube.Client) error {
	if _, err := c.Version(ctx); err != nil && !errors.Is(err, kube.ErrForbidden) {
		return err
	}
	return nil
}

// fleetsThere finds the fleets in the namespace of the command, and in those where stored fleets of these names were
// measured.
func fleetsThere(ctx context.Context, s bench.Store, c *kube.Client, names []string) ([]cluster.Found, error) {
	if err := reach(ctx, c); err != nil {
		return nil, err
	}
	spaces := []string{c.Namespace()}
	for _, name := range names {
		f, err := app.FindFleet(ctx, s, name)
		if err == nil && f.Cluster == c.Server() && !slices.Contains(spaces, f.Namespaces[0]) {
			spaces = append(spaces, f.Namespaces[0])
		}
	}
	var all []cluster.Found
	var errs []error
	for _, space := range spaces {
		found, err := cluster.List(ctx, c, space)
		errs = append(errs, err)
		for _, x := range found {
			if !slices.ContainsFunc(all, func(y cluster.Found) bool { return y.Plan.Fleet.ID == x.Plan.Fleet.ID }) {
				all = append(all, x)
			}
		}
	}
	return all, errors.Join(errs...)
}

// fleetOptions are the flags that say what a fleet is to measure, and where.
type fleetOptions struct {
	cluster              clusterOptions
	params               []string
	networks             []string
	throughput, host     bool
	engines              []string
	rounds, confirm      int
	round, smallest      string
	nodes                string
	tolerations, groupBy []string
	image, memory        string
	pullSecrets, labels  []string
	cpus                 int
	lead                 time.Duration
}

func (o *fleetOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	o.cluster.addFlags(f)
	f.StringArrayVar(&o.params, "param", nil, "an option of the workload: `NAME=VALUE`")
	f.StringSliceVar(&o.networks, "network", nil, "also measure round trips between nodes, over these `networks`: pod, "+
		"host")
	f.BoolVar(&o.throughput, "throughput", false, "also measure throughput between nodes, over the same networks (default "+
		"pod)")
	f.BoolVar(&o.host, "host", false, "measure the nodes themselves and their containers, from privileged pods; not "+
		"with --network, --throughput or --cpus")
	f.StringSliceVarP(&o.engines, "engine", "e", nil, "with --host: these `engines` of the nodes (default "+
		"native,containerd)")
	f.IntVar(&o.rounds, "rounds", app.FleetRounds, "number of rounds: `N`")
	f.StringVar(&o.round, "round", "", "`time` from the beginning of a round to the next (default by how long a block "+
		"takes here, else 30s, and what --network and --throughput take)")
	f.IntVar(&o.confirm, "confirm", app.FleetConfirm, "number of rounds in which suspected nodes are measured again: "+
		"`N`; 0 = none")
	f.StringVar(&o.smallest, "smallest", "", "smallest difference that matters, such as `2%` (default 2%, or 5% below 8 "+
		"nodes; 10% of round trips and throughput)")
	f.StringVar(&o.nodes, "nodes", "", "only nodes whose labels fit this `selector`, such as pool=web")
	f.StringArrayVar(&o.tolerations, "toleration", nil, "also nodes with this taint: `KEY[=VALUE][:EFFECT]`")
	f.StringSliceVar(&o.groupBy, "group-by", nil, "compare only nodes with the same values of these `labels`, or arch "+
		"(default arch, instance type)")
	f.StringVar(&o.image, "image", "", "`reference` of tare's image, as 'tare fleet image' makes it (default "+
		"localhost/tare:VERSION)")
	f.StringSliceVar(&o.pullSecrets, "pull-secret", nil, "`names` of Secrets with the registry's credentials")
	f.IntVar(&o.cpus, "cpus", 0, "request this `number` of CPUs for each pod, and limit it to them (default no limit)")
	f.StringVar(&o.memory, "memory", "1GiB", "memory that each pod requests, and may have: `size`")
	f.StringArrayVar(&o.labels, "label", nil, "a label for Jobs and pods, such as that of a queue: `KEY=VALUE`")
	f.DurationVar(&o.lead, "lead", 0, "for tests: `time` from the start signal to the first round")
	_ = f.MarkHidden("lead") // there is such a flag
	cmd.ValidArgsFunction = completeExperiments
	completeFlag(cmd, "network", completeList(pairs.Pod, pairs.Host))
	completeFlag(cmd, "param", completeParams)
	completeFlag(cmd, "round", completeFixed("10s", "30s", "1m"))
}

// fleetImageName is what tare's image is called if nobody says otherwise: nodes have it that were given it by hand.
func fleetImageName() string {
	tag := strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf || strings.ContainsRune("+()", r) {
			return '-'
		}
		return r
	}, toolVersion())
	return "localhost/tare:" + strings.Trim(tag, "-.")
}

// read turns flags into a request. Its error is a mistake in what was typed.
func (o *fleetOptions) read(e *experiment.Experiment) (r app.FleetRequest, err error) {
	r = app.FleetRequest{
		Experiment: e, Rounds: o.rounds, Confirm: o.confirm, Throughput: o.throughput, Host: o.host, Engines: o.engines,
		Image: o.image, GroupBy: o.groupBy,
		Selector: o.nodes, Lead: o.lead, Pod: cluster.Pod{CPUs: o.cpus, PullSecrets: o.pullSecrets, Labels: map[string]string{}},
	}
	if r.Image == "" {
		r.Image = fleetImageName()
	}
	params, err := keyValues("param", o.params)
	if err != nil {
		return r, err
	}
	if err := e.Override(experiment.Overrides{Params: params}); err != nil {
		return r, &usageError{err: err}
	}
	labels, err := keyValues("label", o.labels)
	if err != nil {
		return r, err
	}
	for _, l := range labels {
		r.Pod.Labels[l.Key] = l.Value
	}
	for _, text := range o.tolerations {
		t, err := readToleration(text)
		if err != nil {
			return r, err
		}
		r.Pod.Tolerations = append(r.Pod.Tolerations, t)
	}
	return r, o.readNumbers(&r)
}

// The fewest and the most rounds of a fleet: with fewer nothing can be said of any node.
const (
	leastFleetRounds = 3
	mostFleetRounds  = 1000
)

// readNumbers reads the flags that are quantities.
func (o *fleetOptions) readNumbers(r *app.FleetRequest) (err error) {
	if o.round != "" {
		if r.Round, err = unit.ParseDuration(o.round); err != nil || r.Round < time.Second {
			return &usageError{fmt.Errorf("--round %q is no time of at least a second", o.round), "write --round 30s"}
		}
	}
	if o.smallest != "" {
		if r.Smallest, err = unit.ParsePercent(o.smallest); err != nil || r.Smallest <= 0 || r.Smallest >= 1 {
			return &usageError{
				fmt.Errorf("--smallest %q is no share between 0 and 100 %%", o.smallest), "write --smallest 2%",
			}
		}
	}
	if r.Pod.Memory, err = unit.ParseBytes(o.memory); err != nil || r.Pod.Memory < 64<<20 {
		return &usageError{fmt.Errorf("--memory %q is no size of at least 64 MiB", o.memory), "write --memory 1GiB"}
	}
	switch {
	case o.rounds < leastFleetRounds || o.rounds > mostFleetRounds:
		return &usageError{
			fmt.Errorf("--rounds %d: there must be %d to %d", o.rounds, leastFleetRounds, mostFleetRounds),
			fmt.Sprintf("%d are enough for most fleets", app.FleetRounds),
		}
	case o.confirm != 0 && o.confirm < leastFleetRounds, o.confirm > mostFleetRounds:
		return &usageError{
			fmt.Errorf("--confirm %d: there must be %d to %d, or 0", o.confirm, leastFleetRounds, mostFleetRounds),
			fmt.Sprintf("%d are usual", app.FleetConfirm),
		}
	case o.host && (len(o.networks) > 0 || o.throughput || o.cpus != 0):
		return &usageError{
			errors.New("--host goes with neither --network nor --throughput nor --cpus"),
			"measure paths in a fleet of their own; a limit of the pod would not hold for containers",
		}
	case !o.host && len(o.engines) > 0:
		return &usageError{errors.New("--engine needs --host: a pod measures a plain process"), "add --host"}
	case o.cpus < 0:
		return &usageError{fmt.Errorf("--cpus %d is below zero", o.cpus), "leave it out for no limit"}
	}
	for _, n := range o.networks {
		if n != pairs.Pod && n != pairs.Host {
			return &usageError{
				fmt.Errorf("a fleet has no network %q", n), "round trips are measured over the network of pods, that of the " +
					"nodes, or both: --network pod,host",
			}
		}
		if !slices.Contains(r.Networks, n) {
			r.Networks = append(r.Networks, n)
		}
	}
	if r.Host && len(r.Engines) == 0 {
		r.Engines = []string{"native", "containerd"}
	}
	if r.Throughput && len(r.Networks) == 0 {
		r.Networks = []string{pairs.Pod}
	}
	if err := program.CheckName(r.Image); err != nil {
		return &usageError{fmt.Errorf("--image: %w", err), "write --image REGISTRY/NAME:TAG"}
	}
	return nil
}

// readToleration reads KEY[=VALUE][:EFFECT].
func readToleration(text string) (t kube.Toleration, err error) {
	rest, effect, _ := strings.Cut(text, ":")
	key, value, valued := strings.Cut(rest, "=")
	t = kube.Toleration{Key: key, Value: value, Effect: effect, Operator: "Exists"}
	if valued {
		t.Operator = "Equal"
	}
	if key == "" || !slices.Contains([]string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}, effect) {
		return t, &usageError{
			fmt.Errorf("--toleration %q is not KEY[=VALUE][:EFFECT]", text),
			"the effects are NoSchedule, PreferNoSchedule and NoExecute",
		}
	}
	return t, nil
}

// preflight finds out what a fleet would be.
func (a *invocation) preflight(
	ctx context.Context, t *app.App, s bench.Store, args []string, o *fleetOptions,
) (*kube.Client, *cluster.Preflight, error) {
	e, err := a.experiment(append(args, defaultExperiment)[0])
	if err != nil {
		return nil, nil, err
	}
	r, err := o.read(e)
	if err != nil {
		return nil, nil, err
	}
	c, err := a.openCluster(o.cluster)
	if err != nil {
		return nil, nil, err
	}
	found, err := t.PlanFleet(ctx, s, c, r)
	return c, found, err
}

// refused is the error of a fleet that cannot run; nil if it can.
func refused(p *cluster.Preflight) error {
	if len(p.Problems) == 0 {
		return nil
	}
	return errors.New("the fleet cannot run:\n" + strings.Join(p.Problems, "\n"))
}

func (a *invocation) fleetPlanCommand() *cobra.Command {
	var o fleetOptions
	cmd := &cobra.Command{
		Use:   "plan [EXPERIMENT|FILE]",
		Short: "Show what 'tare fleet run' would do, without making anything",
		Long: `Plan asks the cluster what a fleet would be: the nodes and those left out, how
long everything takes, how many objects and requests, and what stands in the
way. It makes nothing: of a Job and its pod it asks for a dry run.`,
		Example: `  tare fleet plan cpu --nodes pool=web`,
		Args:    atMostOne("an experiment"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := a.newApp()
			if err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error {
				_, found, err := a.preflight(cmd.Context(), t, s, args, &o)
				if err != nil {
					return err
				}
				if a.global.JSON {
					return errors.Join(a.printJSON(newShownFleetPlan(found)), refused(found))
				}
				a.printFleetPlan(a.stdout, found)
				return refused(found)
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}

// shownFleetPlan is what a fleet would be, as --json prints it.
type shownFleetPlan struct {
	Experiment string           `json:"experiment"`
	Image      string           `json:"image"`
	Cluster    string           `json:"cluster"`
	Namespaces []string         `json:"namespaces"`
	Rounds     int              `json:"rounds"`
	Round      float64          `json:"round_seconds"`
	Confirm    int              `json:"confirming_rounds"`
	Nodes      []fleet.Node     `json:"nodes"`
	LeftOut    []fleet.Omission `json:"left_out"`
	Problems   []string         `json:"problems"`
	Notes      []string         `json:"notes"`
	Admitted   []string         `json:"admitted"` // how the cluster changes the pods that are asked for
	Objects    int              `json:"objects"`
	Requests   int              `json:"requests"`
	Length     float64          `json:"longest_seconds"`
	CPUTime    float64          `json:"cpu_seconds"`
	LogBytes   int64            `json:"log_bytes"`
	Ask        string           `json:"ask,omitempty"` // why 'tare fleet run' asks first
}

func newShownFleetPlan(p *cluster.Preflight) shownFleetPlan {
	f := &p.Plan.Fleet
	return shownFleetPlan{
		Experiment: f.Experiment, Image: f.Image, Cluster: f.Cluster, Namespaces: f.Namespaces, Rounds: f.Rounds,
		Round: f.Round.Seconds(), Confirm: f.Confirm, Nodes: f.Nodes, LeftOut: append([]fleet.Omission{}, f.LeftOut...),
		Problems: append([]string{}, p.Problems...), Notes: append([]string{}, p.Notes...),
		Admitted: append([]string{}, p.Admitted...), Objects: p.Objects, Requests: p.Calls, Length: p.Length.Seconds(),
		CPUTime: p.CPUSeconds, LogBytes: p.LogBytes, Ask: p.Ask,
	}
}

func (a *invocation) fleetManifestsCommand() *cobra.Command {
	var o fleetOptions
	cmd := &cobra.Command{
		Use:   "manifests [EXPERIMENT|FILE]",
		Short: "Print the objects that 'tare fleet run' would make, as YAML",
		Long: `Manifests prints the objects of a fleet for somebody who wants to read them
first. It makes nothing, and what is printed is not for 'kubectl apply': objects
made that way have no owner, and 'tare fleet clean' leaves them. The nodes are
those of now.`,
		Args: atMostOne("an experiment"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := a.newApp()
			if err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error {
				_, found, err := a.preflight(cmd.Context(), t, s, args, &o)
				if err != nil {
					return err
				}
				text, err := cluster.Manifests(&found.Plan)
				if err == nil {
					_, err = a.stdout.Write(text)
				}
				return errors.Join(err, refused(found))
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (a *invocation) fleetRBACCommand() *cobra.Command {
	var namespaces []string
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print the rights that a client of fleets needs, as YAML",
		Long: `Rbac prints the Role and the ClusterRole that somebody needs to run a fleet: to
list nodes, and to handle tare's own objects in one namespace. Pods of a fleet
need no rights.`,
		Example: `  tare fleet rbac --namespace bench | kubectl apply -f -`,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if len(namespaces) == 0 {
				namespaces = []string{"default"}
			}
			text, err := cluster.Rights(namespaces)
			if err == nil {
				_, err = a.stdout.Write(text)
			}
			return err
		},
	}
	cmd.Flags().StringSliceVar(&namespaces, "namespace", nil, "`names` of the namespaces (default the one called default)")
	return cmd
}

func (a *invocation) fleetImageCommand() *cobra.Command {
	var push, output, name string
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Make the image that the pods of a fleet run: push it, or write an archive",
		Long: `Image makes an image of this program, and of bin/tare-linux-arm64 or -amd64 if
such a program lies beside it: one layer with one file for each architecture.

--push sends it to a registry, with the credentials of 'docker login', and prints
the reference to give to --image. --output writes an archive for nodes without a
registry: ctr -n k8s.io images import tare.tar`,
		Example: `  tare fleet image --push registry.example.com/tools/tare:1
  tare fleet image -o tare.tar`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (push == "") == (output == "") {
				return &usageError{errors.New("where is the image to go?"), "use either --push REF or --output FILE"}
			}
			return a.fleetImage(cmd.Context(), push, output, name)
		},
	}
	cmd.Flags().StringVar(&push, "push", "", "send the image to a registry, under this `reference`")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write an archive to this `file`, which must not exist; - prints "+
		"it")
	cmd.Flags().StringVar(&name, "name", "", "`reference` that the image has in the archive (default "+
		"localhost/tare:VERSION)")
	return cmd
}

func (a *invocation) fleetImage(ctx context.Context, push, output, name string) error {
	for flag, ref := range map[string]string{"--push": push, "--name": name} {
		if err := program.CheckName(ref); ref != "" && err != nil { // an empty one is none
			return &usageError{fmt.Errorf("%s: %w", flag, err), "write " + flag + " REGISTRY/NAME:TAG"}
		}
	}
	img, err := app.FleetImage(ctx)
	if err != nil {
		return err
	}
	a.notice("architectures of the image: %s", strings.Join(img.Architectures, ", "))
	if push != "" {
		pinned, err := img.Push(ctx, push)
		if err != nil {
			return fmt.Errorf("push %s: %w", push, err)
		}
		fmt.Fprintln(a.stdout, pinned)
		return nil
	}
	write := func(w io.Writer) error { return img.Write(w, cmp.Or(name, fleetImageName())) }
	if output == "-" {
		return write(a.stdout)
	}
	return writeNewFile("--output", output, write)
}
