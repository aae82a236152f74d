package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/fleet/odd"
	"github.com/tare-bench/tare/internal/fleet/pairs"
	"github.com/tare-bench/tare/internal/text/unit"
)

const (
	askAbove  = 50 // nodes: more are asked for first
	jobWrites = 5  // of the controllers for each Job: pod, status, finalizer
	ctrlRate  = 20 // such writes in a second: the default of the controller manager
	logRound  = 8 << 10
	logBegin  = 32 << 10 // the header of a run: facts of the host, the plan
)

// rampTime is how long it takes until the pods of that many Jobs are made, with the defaults of the control plane.
func rampTime(jobs int) time.Duration {
	return time.Duration(jobs*jobWrites) * time.Second / ctrlRate
}

// rampLimit is how long Start waits for the pods of that many Jobs at most: images have to be pulled as well.
func rampLimit(jobs int) time.Duration { return 10*time.Minute + 3*rampTime(jobs) }

// A preflight is one in the making.
type preflight struct {
	Preflight
	c       *kube.Client
	r       *Request
	allowed map[string]bool // by "verb resource"
}

// problem adds why the fleet cannot run.
func (f *preflight) problem(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(f.Problems, text) {
		f.Problems = append(f.Problems, text)
	}
}

func (f *preflight) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(f.Notes, text) {
		f.Notes = append(f.Notes, text)
	}
}

// CheckFirst finds out whether and how a fleet can run. It makes nothing.
func CheckFirst(ctx context.Context, c *kube.Client, r Request) (*Preflight, error) {
	f := &preflight{c: c, r: &r, allowed: map[string]bool{}}
	if len(r.Fleet.Namespaces) == 0 {
		r.Fleet.Namespaces = []string{c.Namespace()}
	}
	r.Fleet.Cluster = c.Server()
	labels := r.Fleet.GroupBy
	if len(labels) == 0 {
		r.Fleet.GroupBy = DefaultGroups
	}
	base := r.Fleet.Namespaces[0]
	if err := f.checkVersion(ctx); err != nil {
		return nil, err
	}
	if ok, why, err := c.Allowed(ctx, rights[0].access("list", "")); err != nil {
		return nil, err
	} else if !ok {
		return nil, fmt.Errorf("you may not list the nodes of the cluster (%s): "+
			"tare fleet rbac prints the rights that are needed", cmp.Or(why, "nobody allows it"))
	}
	nodes, err := c.Nodes(ctx, r.Selector)
	if refusal := (*kube.Error)(nil); r.Selector != "" && errors.As(err, &refusal) && refusal.Code == http.StatusBadRequest {
		return nil, fmt.Errorf("--nodes %q is no selector of labels: %.200q", r.Selector, refusal.Message)
	}
	if err != nil {
		return nil, err
	}
	r.Fleet.Nodes, r.Fleet.LeftOut = choose(nodes, &r)
	r.Fleet.Namespaces = spaces(base, r.pods())
	f.Plan = r.Plan
	f.checkImage(nodes)
	f.checkArchitectures()
	f.checkLabels(nodes, labels)
	f.checkRounds()
	switch len(r.Fleet.Nodes) {
	case 0:
		if len(nodes) == 0 && r.Selector != "" {
			f.problem("no node has labels as in --nodes %q; to choose by name: --nodes 'kubernetes.io/hostname in (a,b)'",
				r.Selector)
			return &f.Preflight, nil
		}
		f.problem("no node of %d can be measured%s", len(nodes), firstOmission(&r.Plan))
		return &f.Preflight, nil
	case 1:
		f.problem("only one node can be measured, and a fleet is compared within itself%s", firstOmission(&r.Plan))
	}
	if err := f.Plan.check(); err != nil {
		return nil, err
	}
	for i, space := range r.Fleet.Namespaces {
		n := min(r.nodesPerSpace(), len(r.Fleet.Nodes)-i*r.nodesPerSpace())
		if err := f.checkSpace(ctx, space, n); err != nil {
			return nil, err
		}
	}
	f.checkOthers(ctx, base)
	f.Estimate()
	return &f.Preflight, nil
}

// checkLabels notes which labels no node has, by which nodes are to be grouped.
func (f *preflight) checkLabels(nodes []kube.Node, labels []string) {
	for _, label := range labels {
		has := func(n kube.Node) bool { _, ok := n.Labels[label]; return ok || label == byArch }
		if !slices.ContainsFunc(nodes, has) {
			f.note("no node has the label %q of --group-by", label)
		}
	}
}

// checkRounds notes that so few rounds cannot name a node.
func (f *preflight) checkRounds() {
	fewest, nodes := odd.Fewest(len(f.Plan.Fleet.Nodes)), len(f.Plan.Fleet.Nodes)
	if f.Plan.Fleet.Rounds < fewest {
		f.note("%d rounds cannot name any of %d nodes: it takes at least %d, and more with several metrics",
			f.Plan.Fleet.Rounds, nodes, fewest)
	}
}

// checkOthers notes which fleets are measured at the same time. If that cannot be told, nothing is said.
func (f *preflight) checkOthers(ctx context.Context, space string) {
	others, err := List(ctx, f.c, space)
	if err != nil {
		return
	}
	for i := range others {
		if !others[i].Over(time.Now()) {
			f.note("fleet %s is being measured in this namespace: both would disturb each other", others[i].Plan.Fleet.ID)
		}
	}
}

// ownHost begins the names of images that no registry has.
const ownHost = "localhost/"

// listed is how many images a node lists at most, by default: of these, the largest.
const listed = 50

// checkImage notes which nodes of the fleet do not list its image. A node that lists none says nothing.
func (f *preflight) checkImage(all []kube.Node) {
	image, missing := f.Plan.Fleet.Image, []string(nil)
	lacks := map[string]bool{}
	for i := range all {
		images := all[i].Status.Images
		lacks[all[i].Name] = len(images) > 0 && len(images) < listed
		for _, one := range images {
			lacks[all[i].Name] = lacks[all[i].Name] && !slices.Contains(one.Names, image)
		}
	}
	for _, n := range f.Plan.Fleet.Nodes {
		if lacks[n.Name] {
			missing = append(missing, n.Name)
		}
	}
	if len(missing) == 0 {
		return
	}
	which := fmt.Sprintf("%d of %d nodes do not list the image %s yet (such as %s)", len(missing), len(f.Plan.Fleet.Nodes),
		image, missing[0])
	if strings.HasPrefix(image, ownHost) {
		f.note("%s, and nobody can pull it: tare fleet image -o FILE, and import that on each node (after that, it takes "+
			"minutes until a node lists it)", which)
	} else {
		f.note("%s, and will pull it", which)
	}
}

// checkArchitectures notes that the image must be of several kinds. Which it has, the registry knows.
func (f *preflight) checkArchitectures() {
	var all []string
	for _, n := range f.Plan.Fleet.Nodes {
		if n.Arch != "" && !slices.Contains(all, n.Arch) {
			all = append(all, n.Arch)
		}
	}
	slices.Sort(all)
	if len(all) > 1 {
		f.note("the nodes are %s: the image must have a program for each: see tare fleet image --help",
			strings.Join(all, " and "))
	}
}

// oldest is the first version of Kubernetes 1 that has all that a fleet needs: a Job's podFailurePolicy.
const oldest = 25

func (f *preflight) checkVersion(ctx context.Context) error {
	v, err := f.c.Version(ctx)
	if errors.Is(err, kube.ErrForbidden) {
		f.note("the version of Kubernetes is not known (%v): a fleet needs 1.%d or later", err, oldest)
		return nil
	}
	if err == nil && v.Major == 1 && v.Minor < oldest {
		f.problem("the cluster has Kubernetes %s, and a fleet needs 1.%d or later", v.Text, oldest)
	}
	return err
}

func firstOmission(p *Plan) string {
	if len(p.Fleet.LeftOut) == 0 {
		return ""
	}
	o := p.Fleet.LeftOut[0]
	return fmt.Sprintf("; %s: %s", o.Node, o.Reason)
}

// check finds mistakes of the caller.
func (p *Plan) check() error {
	f := &p.Fleet
	if err := validID(f.ID); err != nil {
		return err
	}
	switch {
	case f.Image == "":
		return errors.New("the fleet has no image")
	case f.Rounds < 1 || f.RoundOf(2) <= 0:
		return fmt.Errorf("%d rounds of %v make no fleet", f.Rounds, f.Round)
	case p.Pod.Memory <= 0 || p.Pod.Disk <= 0:
		return errors.New("pods need memory and a disk")
	}
	return nil
}

// checkSpace asks about one namespace, in which n nodes have their pods.
func (f *preflight) checkSpace(ctx context.Context, space string, n int) error {
	if err := f.checkRights(ctx, space); err != nil {
		return err
	}
	steps := []struct {
		right string
		check func(context.Context, string, int) error
	}{
		{"list resourcequotas", f.checkQuota},
		{"list limitranges", f.checkLimits},
		{"create jobs", f.rehearseAll},
	}
	for _, s := range steps {
		if !f.allowed[s.right] {
			continue
		}
		if err := s.check(ctx, space, n); err != nil {
			return err
		}
	}
	return nil
}

// checkQuota compares what the pods of n nodes need with what is left of the quotas.
func (f *preflight) checkQuota(ctx context.Context, space string, n int) error {
	quotas, err := kube.List[kube.ResourceQuota](ctx, f.c, kube.Query{Namespace: space})
	if err != nil {
		return err
	}
	need := map[string]float64{} // of the pods of one node; then of the fleet
	unlimited := false           // a pod has no limit of CPUs
	for _, network := range f.Plan.podsOf(1) {
		memory, cpus := float64(f.Plan.memoryOf(network)), float64(f.Plan.cpusOf(network))
		asked := cpus
		if cpus == 0 {
			asked, _ = kube.Quantity(cpuAsked).Value()
			unlimited = true
		}
		for name, amount := range map[string]float64{
			"pods": 1, "count/pods": 1, "count/jobs.batch": 1,
			"memory": memory, "requests.memory": memory, "limits.memory": memory,
			"cpu": asked, "requests.cpu": asked, "limits.cpu": cpus,
		} {
			need[name] += amount
		}
	}
	few := map[string]float64{"configmaps": 4, "count/configmaps": 4, "secrets": 1, "count/secrets": 1}
	for _, q := range quotas {
		counts, known := countsPods(&q)
		if !known {
			f.note("quota %s/%s counts only some pods: it was not looked at", space, q.Name)
		}
		if !counts {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
			hard := q.Status.Hard[name]
			total, needed := few[name]
			if one, perNode := need[name]; perNode {
				total, needed = one*float64(n), true
			}
			limit, ok := hard.Value()
			used, _ := q.Status.Used[name].Value()
			switch {
			case !needed || !ok:
			case name == "limits.cpu" && unlimited:
				f.problem("quota %s/%s wants a limit of CPUs for each pod, and pods have none unless --cpus is given (those of "+
					"--network host never have one)", space, q.Name)
			case used+total > limit:
				f.problem("quota %s/%s allows %s %s, of which %s are used and %s are left: the fleet needs %s. "+
					"Raise it, or measure fewer nodes", space, q.Name, hard, name, amount(name, used),
					amount(name, max(0, limit-used)), amount(name, total))
			}
		}
	}
	return nil
}

// countsPods reports whether a quota counts the pods of a fleet: they ask for something, and have no deadline of their
// own. known is false if that cannot be said.
func countsPods(q *kube.ResourceQuota) (counts, known bool) {
	counts = true
	for _, scope := range q.Spec.Scopes {
		switch scope {
		case "NotBestEffort", "NotTerminating":
		case "BestEffort", "Terminating", "CrossNamespacePodAffinity":
			counts = false
		default:
			return false, false
		}
	}
	known = q.Spec.Selector == nil
	return counts && known, known
}

// amount is how much of a resource that is.
func amount(resource string, v float64) string {
	if strings.Contains(resource, "memory") {
		return unit.Format(v, unit.Bytes)
	}
	return fmt.Sprintf("%.6g", v)
}

// checkLimits looks for limits that the namespace would add, and for those that pods are beyond.
func (f *preflight) checkLimits(ctx context.Context, space string, _ int) error {
	ranges, err := kube.List[kube.LimitRange](ctx, f.c, kube.Query{Namespace: space})
	if err != nil {
		return err
	}
	for _, r := range ranges {
		for _, l := range r.Spec.Limits {
			if l.Type != "Container" && l.Type != "Pod" {
				continue
			}
			for _, network := range f.Plan.podsOf(1) {
				if cpu, ok := l.Default["cpu"]; ok && f.Plan.cpusOf(network) == 0 {
					f.admit(fmt.Sprintf("LimitRange %s/%s limits its CPUs to %s", space, r.Name, cpu))
				}
				asked := f.Plan.pod("", 1, network).Containers[0].Resources
				for _, what := range []string{"cpu", "memory"} {
					f.checkBounds(space+"/"+r.Name, what, l.Min[what], l.Max[what], asked)
				}
			}
		}
	}
	return nil
}

// checkBounds compares what a pod asks for of a resource with what a LimitRange wants of each; "" = nothing.
func (f *preflight) checkBounds(name, what string, least, most kube.Quantity, asked kube.Requirements) {
	flag := map[string]string{"cpu": "--cpus", "memory": "--memory"}[what]
	request, _ := asked.Requests[what].Value()
	limit := request
	if l, ok := asked.Limits[what].Value(); ok {
		limit = l
	}
	if v, ok := most.Value(); ok && v < limit {
		f.problem("LimitRange %s allows at most %s of %s, and a pod asks for %s: %s asks for less", name, most, what,
			amount(what, limit), flag)
	}
	if v, ok := least.Value(); ok && v > request {
		f.problem("LimitRange %s wants at least %s of %s, and a pod asks for %s: %s asks for more", name, least, what,
			amount(what, request), flag)
	}
}

func (f *preflight) admit(text string) {
	if !slices.Contains(f.Admitted, text) {
		f.Admitted = append(f.Admitted, text)
	}
}

// rehearseAll lets the cluster admit a Job of each network and its pod without making them.
func (f *preflight) rehearseAll(ctx context.Context, space string, n int) error {
	for _, network := range f.Plan.podsOf(1) {
		if err := f.rehearse(ctx, space, network, n); err != nil {
			return err
		}
	}
	return nil
}

// rehearse lets the cluster admit one Job and its pod without making them, and compares what came of it.
func (f *preflight) rehearse(ctx context.Context, space, network string, n int) error {
	p := f.Plan
	index := slices.Index(p.Fleet.Namespaces, space) * p.nodesPerSpace()
	j := p.job(1, index, network, n, nil)
	asked := j.Spec.Template.Spec
	if err := f.c.DryRun(ctx, j); err != nil {
		return f.refused(err, "a Job", space)
	}
	got := [][]string{differences(asked, j.Spec.Template.Spec)}
	if f.allowed["create pods"] { // most webhooks look at pods only
		pod := &kube.Pod{Meta: p.meta(j.Name, space), Spec: asked}
		err := f.c.DryRun(ctx, pod)
		more := p.Fleet.Host || network == pairs.Host
		if errors.Is(err, kube.ErrForbidden) && more && strings.Contains(err.Error(), "PodSecurity") {
			f.problem("namespace %s refuses pods that may do what --host and --network host need: %v. Use another "+
				"namespace, or: kubectl label --overwrite namespace %s pod-security.kubernetes.io/enforce=privileged",
				space, err, space)
			return nil
		}
		if err != nil {
			return f.refused(err, "a pod", space)
		}
		got = append(got, differences(asked, pod.Spec))
	}
	for _, d := range slices.Concat(got...) {
		f.admit(d)
	}
	return nil
}

// refused turns the refusal of an object into a problem. It returns any other error.
func (f *preflight) refused(err error, what, space string) error {
	switch {
	case errors.Is(err, kube.ErrInvalid), errors.Is(err, kube.ErrForbidden):
		f.problem("namespace %s refuses %s of the fleet: %v", space, what, err)
	case errors.Is(err, kube.ErrNotFound):
		f.problem("there is no namespace %s: kubectl create namespace %s", space, space)
	case errors.Is(err, kube.ErrExists):
		f.problem("namespace %s has a Job of that name already: clean, or begin a new fleet", space)
	default:
		return err
	}
	return nil
}

// Estimate says what the fleet of the plan takes, and whether somebody should be asked.
func (f *Preflight) Estimate() {
	p := &f.Plan
	n, rounds, pods := len(p.Fleet.Nodes), p.Fleet.Rounds+p.Fleet.Confirm, p.pods()
	f.Objects = pods + 4*len(p.Fleet.Namespaces)
	f.Ramp = rampTime(pods)
	length := f.Ramp + signalTime + time.Duration(p.Fleet.Rounds)*p.Fleet.Round
	if p.Fleet.Confirm > 0 {
		length += 2*signalTime + time.Duration(p.Fleet.Confirm)*p.Fleet.RoundOf(2) // of few nodes: the ramp is short
	}
	f.Length = length.Round(time.Second)
	f.CPUSeconds = 0
	for _, node := range p.Fleet.Nodes {
		cpus := max(1, node.CPUs)
		if p.Pod.CPUs > 0 {
			cpus = p.Pod.CPUs
		}
		f.CPUSeconds += float64(cpus) * p.Fleet.Round.Seconds() * float64(p.Fleet.Rounds)
	}
	f.LogBytes = int64(n) * int64(logBegin+rounds*logRound)
	sweeps := math.Ceil(float64(p.Fleet.Rounds) * p.Fleet.Round.Seconds() / sweepTime(pods).Seconds())
	f.Calls = f.Objects + pods + pods*int(sweeps) + n/perPage + 10
	var ask []string
	if n > askAbove {
		ask = append(ask, fmt.Sprintf("%d nodes are measured", n))
	}
	if p.Fleet.Throughput {
		ask = append(ask, "throughput is measured, which loads the network: at most eight pairs at once, for 0.4 seconds "+
			"at a time")
	}
	f.Ask = strings.Join(ask, "; ")
}

// perPage is how many objects a page of a list has.
const perPage = 500
