package fleet

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/odd"
	"github.com/tare-bench/tare/internal/fleet/pairs"
)

// Version is that of the form in which a Document is written as JSON: docs/fleet-format.md.
const Version = 1

// A Document is everything that reports of a fleet say. Ratios compare a node with the others of its group:
// 1.1 = a tenth more. What cannot be said is absent.
type Document struct {
	Version    int           `json:"version"`
	Fleet      string        `json:"fleet"` // its ID
	Tool       string        `json:"tool"`
	Began      time.Time     `json:"began"`
	Cluster    string        `json:"cluster"`
	Experiment string        `json:"experiment"`
	Image      string        `json:"image"`
	Seed       uint64        `json:"seed,string"`
	Rounds     int           `json:"rounds"` // planned, of the first pass
	Round      float64       `json:"round_seconds"`
	Confirm    int           `json:"confirming_rounds"`
	Counts     Counts        `json:"counts"`
	Metrics    []Metric      `json:"metrics"`
	Nodes      []Node        `json:"nodes"` // those that stand out first, then by name
	LeftOut    []LeftOutNode `json:"left_out,omitempty"`
	Paths      []Path        `json:"paths,omitempty"`
	Warnings   []string      `json:"warnings,omitempty"`

	again bool // the second pass of suspects is not over
}

// Counts are how many nodes have each verdict; a node counts once, with the verdict that stands out most.
type Counts struct {
	Nodes       int `json:"nodes"` // of the cluster that were asked for
	Odd         int `json:"odd"`   // slow or fast, in a metric or on paths
	Suspect     int `json:"suspect"`
	Unsteady    int `json:"unsteady"`
	Ordinary    int `json:"ordinary"`
	Unclear     int `json:"unclear"`      // those that the second pass did not confirm included
	NotMeasured int `json:"not_measured"` // left out ones included
}

// A Metric is what is known of all nodes together.
type Metric struct {
	Name   string          `json:"name"`
	Title  string          `json:"title"`
	Unit   string          `json:"unit"`
	Better bench.Direction `json:"better"`
	Groups []Group         `json:"groups"`
}

// A Group is what is known of like nodes.
type Group struct {
	Name   string   `json:"name,omitempty"`
	Nodes  int      `json:"nodes"`            // that have values
	Center *float64 `json:"median,omitempty"` // in the metric's unit
	Spread *float64 `json:"spread,omitempty"` // how far nodes honestly differ, as a share: 0.01 = 1 %
	Noise  *float64 `json:"noise,omitempty"`  // from round to round on one node, as a share
	// Limit is how far a node may be from the others without being odd, as a share.
	Limit *float64 `json:"limit,omitempty"`
	// Kinds are set if the nodes are of two kinds, so that none is odd: the names of each.
	Kinds [][]string `json:"two_kinds,omitempty"`
	Small bool       `json:"small,omitempty"` // fewer than eight nodes: their spread cannot be told
}

// A Node is what is known of one.
type Node struct {
	Name         string      `json:"name"`
	Group        string      `json:"group,omitempty"`
	Zone         string      `json:"zone,omitempty"`
	InstanceType string      `json:"instance_type,omitempty"`
	Arch         string      `json:"arch,omitempty"`
	Kernel       string      `json:"kernel,omitempty"`
	State        fleet.State `json:"state"`
	Reason       string      `json:"reason,omitempty"` // why it is not done
	Run          string      `json:"run,omitempty"`    // the ID of its run
	Rounds       int         `json:"rounds"`
	Clock        float64     `json:"clock_ahead_seconds"` // of the nodes that it met, or of the API server
	Verdict      odd.Verdict `json:"verdict"`             // the one that stands out most, of findings and paths
	Findings     []Finding   `json:"findings,omitempty"`  // as Document.Metrics
}

// A Finding is what is known of a node in one metric.
type Finding struct {
	Metric   string      `json:"metric"`
	Verdict  odd.Verdict `json:"verdict"`
	Ratio    *float64    `json:"ratio,omitempty"` // to the others of its group, with its 95 % interval
	Low      *float64    `json:"low,omitempty"`
	High     *float64    `json:"high,omitempty"`
	Adjusted *float64    `json:"adjusted_p,omitempty"` // for all nodes and metrics
	Noise    *float64    `json:"noise,omitempty"`      // from round to round, as a share
	Needs    int         `json:"needs_rounds,omitempty"`
	Reasons  []string    `json:"reasons,omitempty"`
	Text     string      `json:"text"` // in a few words
}

// A LeftOutNode is a node that nothing was run on.
type LeftOutNode struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// A Path is what round trips over one network tell, or what throughput tells.
type Path struct {
	Network string `json:"network"`
	Bulk    bool   `json:"throughput,omitempty"` // ratios are those of rates
	// Limit is how far a node may be from the others without being odd, as a share.
	Limit  *float64   `json:"limit,omitempty"`
	Center float64    `json:"median_seconds,omitempty"` // of round trips
	Rate   float64    `json:"median_bytes_per_second,omitempty"`
	Zone   *Ratio     `json:"across_zones,omitempty"`
	Cost   *Ratio     `json:"beside_host,omitempty"` // this network beside that of the hosts, within the same slots
	Nodes  []PathNode `json:"nodes"`
	Links  []PathLink `json:"links"` // the slowest first
	// Losses are pairs between which nothing could be measured in some rounds, although both ends had others.
	Losses []PathLoss `json:"losses,omitempty"`
	// Silent are nodes with which nobody had a round trip in some rounds.
	Silent []PathSilence `json:"silent,omitempty"`
	// Apart are nodes that cannot be judged: too few are in their zone to tell the zone from the node.
	Apart []string `json:"apart,omitempty"`
}

// A Ratio has a 95 % interval.
type Ratio struct {
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// A PathNode is what a node adds to its round trips.
type PathNode struct {
	Name    string        `json:"name"`
	Verdict pairs.Verdict `json:"verdict"`
	Ratio
	Adjusted float64 `json:"adjusted_p"`
	// OrLink names the ends of a link: with three nodes, that it is odd the other way would look the same.
	OrLink []string `json:"or_link,omitempty"`
}

// A PathLink is what a pair of nodes has beyond its two ends. Either was the client.
type PathLink struct {
	Ends    [2]string     `json:"ends"`
	Verdict pairs.Verdict `json:"verdict"`
	Ratio
	Adjusted float64 `json:"adjusted_p"`
	Seconds  float64 `json:"median_seconds,omitempty"`
	Rate     float64 `json:"median_bytes_per_second,omitempty"`
	// OrNode names a node: with three nodes, that it is odd the other way would look the same.
	OrNode string `json:"or_node,omitempty"`
}

// A PathLoss is a pair between which nothing could be measured in some rounds.
type PathLoss struct {
	Ends   [2]string `json:"ends"`
	Rounds int       `json:"rounds"` // in which it was so
	Of     int       `json:"of"`     // rounds in which they met, and neither was silent
	Reason string    `json:"reason"` // the one that is most frequent
}

// A PathSilence is a node with which nobody had a round trip in some rounds.
type PathSilence struct {
	Name   string `json:"name"`
	Rounds int    `json:"rounds"` // in which it was so
	Of     int    `json:"of"`     // rounds in which it met two or more others
	Reason string `json:"reason"` // the one that is most frequent
}

// New makes the document of a fleet.
func New(in Input) *Document {
	f := &in.Fleet
	d := &Document{
		Version: Version, Fleet: f.ID, Tool: f.Tool, Began: f.Began, Cluster: f.Cluster, Experiment: f.Experiment,
		Image: f.Image, Seed: f.Seed, Rounds: f.Rounds, Round: f.Round.Seconds(), Confirm: f.Confirm,
	}
	for m := range in.Metrics {
		d.Metrics = append(d.Metrics, newMetric(&in, m))
	}
	for n := range f.Nodes {
		d.Nodes = append(d.Nodes, d.newNode(&in, n))
	}
	for _, o := range f.LeftOut {
		d.LeftOut = append(d.LeftOut, LeftOutNode{o.Node, o.Reason})
	}
	for _, p := range in.Paths {
		d.Paths = append(d.Paths, newPath(f, p))
	}
	d.nameByPaths()
	d.count()
	d.again = d.Counts.Suspect > 0 && f.Confirm > 0 && !hasSecondPass(f)
	d.warn(f)
	slices.SortStableFunc(d.Nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(rank(a.Verdict), rank(b.Verdict)), -cmp.Compare(a.far(), b.far()), cmp.Compare(a.Name, b.Name))
	})
	return d
}

// hasSecondPass reports whether a second pass of a fleet is over.
func hasSecondPass(f *fleet.Fleet) bool {
	over := false
	for _, o := range f.Outcomes {
		if o.Pass != 2 {
			continue
		}
		if o.State == fleet.Waiting || o.State == fleet.Running {
			return false
		}
		over = true
	}
	return over
}

// order is the verdicts, those that stand out most first.
var order = []odd.Verdict{
	odd.Slow, odd.Fast, odd.Suspect, odd.Unconfirmed, odd.Unsteady, odd.Unclear, odd.Ordinary, odd.NotMeasured,
}

func rank(v odd.Verdict) int { return slices.Index(order, v) }

func newMetric(in *Input, m int) Metric {
	b := in.Metrics[m]
	metric := Metric{Name: b.Name, Title: b.Title, Unit: b.Unit, Better: b.Better, Groups: []Group{}}
	if m >= len(in.Judged.Groups) {
		return metric
	}
	for _, g := range in.Judged.Groups[m] {
		group := Group{
			Name: g.Name, Nodes: g.Nodes, Small: g.Small, Center: finite(g.Center),
			Spread: finite(math.Expm1(g.Spread)), Noise: finite(math.Expm1(g.Noise)), Limit: finite(math.Expm1(g.Limit)),
		}
		if len(g.Modes[0]) > 0 && len(g.Modes[1]) > 0 {
			for _, mode := range g.Modes {
				group.Kinds = append(group.Kinds, in.names(mode))
			}
		}
		metric.Groups = append(metric.Groups, group)
	}
	return metric
}

// names are those of nodes.
func (in *Input) names(nodes []int) (names []string) {
	for _, n := range nodes {
		names = append(names, in.Fleet.Nodes[n].Name)
	}
	return names
}

func (d *Document) newNode(in *Input, n int) Node {
	x := in.Fleet.Nodes[n]
	node := Node{
		Name: x.Name, Group: x.Group, Zone: x.Zone, InstanceType: x.InstanceType, Arch: x.Arch, Kernel: x.Kernel,
		State: fleet.Waiting, Verdict: odd.NotMeasured,
	}
	if o := in.Fleet.OutcomeOf(x.Name, 1); o != nil {
		node.State, node.Reason, node.Run, node.Rounds = o.State, o.Reason, o.Run, o.Rounds
		node.Clock = cmp.Or(o.Clock, in.Fleet.AheadIn(1, x.Name)).Seconds()
	}
	if ahead, known := in.Clocks[n]; known {
		node.Clock = ahead
	}
	for m := range in.Judged.Findings {
		f := d.newFinding(in, m, n)
		node.Findings = append(node.Findings, f)
		if rank(f.Verdict) < rank(node.Verdict) {
			node.Verdict = f.Verdict
		}
	}
	return node
}

func (d *Document) newFinding(in *Input, m, n int) Finding {
	j := in.Judged.Findings[m][n]
	f := Finding{Metric: in.Metrics[m].Name, Verdict: j.Verdict, Needs: j.Needs}
	if j.Verdict != odd.NotMeasured {
		f.Ratio, f.Low, f.High = finite(math.Exp(j.Effect)), finite(math.Exp(j.Low)), finite(math.Exp(j.High))
		f.Adjusted, f.Noise = finite(j.P), finite(math.Expm1(j.Noise))
	}
	if m < len(in.Reasons) && n < len(in.Reasons[m]) {
		f.Reasons = in.Reasons[m][n]
	}
	f.Text = f.words(&d.Metrics[m])
	return f
}

// far is how far the node is from the others, in the metric where it is furthest, as a logarithm.
func (n *Node) far() (far float64) {
	for _, f := range n.Findings {
		if f.Ratio != nil && *f.Ratio > 0 {
			far = max(far, math.Abs(math.Log(*f.Ratio)))
		}
	}
	return far
}

func newPath(f *fleet.Fleet, r pairs.Result) Path {
	p := Path{Network: r.Network, Bulk: r.Bulk, Nodes: []PathNode{}, Links: []PathLink{}}
	p.Center, p.Rate = p.measure(r.Center)
	if r.NodeLimit > 0 {
		p.Limit = finite(math.Expm1(r.NodeLimit))
	}
	if r.Zone != (pairs.Effect{}) {
		zone := p.ratio(r.Zone)
		p.Zone = &zone
	}
	if r.Cost != nil {
		cost := p.ratio(*r.Cost)
		p.Cost = &cost
	}
	name := func(n int) string { return f.Nodes[n].Name }
	for i, n := range r.Nodes {
		node := PathNode{Name: name(i), Verdict: n.Verdict, Ratio: p.ratio(n.Effect), Adjusted: n.P}
		if n.OrLink != nil {
			node.OrLink = []string{name(n.OrLink.Client), name(n.OrLink.Server)}
		}
		p.Nodes = append(p.Nodes, node)
	}
	for _, l := range r.Links {
		link := PathLink{
			Ends: [2]string{name(l.Client), name(l.Server)}, Verdict: l.Verdict, Ratio: p.ratio(l.Effect), Adjusted: l.P,
		}
		link.Seconds, link.Rate = p.measure(l.Seconds)
		if l.OrNode != nil {
			link.OrNode = name(*l.OrNode)
		}
		p.Links = append(p.Links, link)
	}
	for _, l := range r.Losses {
		ends := [2]string{name(l.Client), name(l.Server)}
		p.Losses = append(p.Losses, PathLoss{ends, l.Rounds, l.Of, l.Reason})
	}
	for _, s := range r.Silent {
		p.Silent = append(p.Silent, PathSilence{name(s.Node), s.Rounds, s.Of, s.Reason})
	}
	for _, n := range r.Apart {
		p.Apart = append(p.Apart, name(n))
	}
	return p
}

// nameByPaths gives the nodes that round trips or throughput name their verdict.
func (d *Document) nameByPaths() {
	for i := range d.Nodes {
		n := &d.Nodes[i]
		for j := range d.Paths {
			x := d.Paths[j].nodeCalled(n.Name)
			if x == nil || !stands(x.Verdict) {
				continue
			}
			verdict := odd.Slow
			if x.Verdict == pairs.Fast {
				verdict = odd.Fast
			}
			if rank(verdict) < rank(n.Verdict) {
				n.Verdict = verdict
			}
		}
	}
}

// mayStand is the node that is furthest from the others, if its whole interval is beyond the limit; nil = there is none.
func (p *Path) mayStand() (most *PathNode) {
	far := func(n *PathNode) float64 { return math.Abs(math.Log(n.Ratio.Ratio)) }
	for i := range p.Nodes {
		n := &p.Nodes[i]
		beyond := p.Limit != nil && (n.Low > 1+*p.Limit || n.High < 1/(1+*p.Limit))
		if beyond && n.Verdict == pairs.Unclear && (most == nil || far(n) > far(most)) {
			most = n
		}
	}
	return most
}

// nodeCalled is what a path tells of a node; nil = nothing.
func (p *Path) nodeCalled(name string) *PathNode {
	i := slices.IndexFunc(p.Nodes, func(n PathNode) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Nodes[i]
}

// ratio is an effect on times as a ratio, or as that of rates.
func (p *Path) ratio(e pairs.Effect) Ratio {
	if p.Bulk {
		e = pairs.Effect{Estimate: -e.Estimate, Low: -e.High, High: -e.Low}
	}
	return Ratio{math.Exp(e.Estimate), math.Exp(e.Low), math.Exp(e.High)}
}

// measure is a time as it is or, of a MiB, as a rate in bytes per second.
func (p *Path) measure(time float64) (seconds, rate float64) {
	const mebibyte = 1 << 20
	if p.Bulk && time > 0 {
		return 0, mebibyte / time
	}
	return time, 0
}

// slower is how many times as slow as the median a link is.
func (p *Path) slower(l *PathLink) float64 {
	if p.Bulk {
		return p.Rate / l.Rate
	}
	return l.Seconds / p.Center
}

func (d *Document) count() {
	c := &d.Counts
	c.Nodes = len(d.Nodes) + len(d.LeftOut)
	c.NotMeasured = len(d.LeftOut)
	for _, n := range d.Nodes {
		switch n.Verdict {
		case odd.Slow, odd.Fast:
			c.Odd++
		case odd.Suspect:
			c.Suspect++
		case odd.Unsteady:
			c.Unsteady++
		case odd.Ordinary:
			c.Ordinary++
		case odd.NotMeasured:
			c.NotMeasured++
		default:
			c.Unclear++
		}
	}
}

// warn says what is to be known of the measurement as a whole.
func (d *Document) warn(f *fleet.Fleet) {
	images := map[string][]string{} // by what ran
	for _, o := range f.Outcomes {
		if o.ImageID != "" && o.Pass == 1 {
			images[o.ImageID] = append(images[o.ImageID], o.Node)
		}
	}
	arches := map[string]bool{}
	for _, n := range f.Nodes {
		arches[n.Arch] = true
	}
	if len(images) > max(1, len(arches)) {
		d.Warnings = append(d.Warnings, "the nodes ran different images under the same name: give one by its digest")
	}
	admitted := map[string][]string{}
	for _, o := range f.Outcomes {
		if len(o.Admitted) > 0 && o.Pass == 1 {
			admitted[strings.Join(o.Admitted, "; ")] = append(admitted[strings.Join(o.Admitted, "; ")], o.Node)
		}
	}
	for _, what := range sortedKeys(admitted) {
		d.Warnings = append(d.Warnings, "the cluster changed the pod on "+few(admitted[what])+": "+what)
	}
	for _, n := range d.Nodes {
		if math.Abs(n.Clock) > 2 {
			what := "its rounds did not begin with theirs"
			if math.Abs(n.Clock-f.AheadIn(1, n.Name).Seconds()) <= 2 {
				what = "its rounds began with theirs all the same"
			}
			d.Warnings = append(d.Warnings, "the clock of "+n.Name+" is "+aheadOrBehind(n.Clock)+" the others: "+what)
		}
	}
}

func sortedKeys(m map[string][]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// finite is a pointer to a number, nil if it is none.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
