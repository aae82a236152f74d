// Package kubernetes makes containers as pods of a cluster, on the node that tare runs on. Beside engine cri, which
// asks the node's container runtime for the same, it shows what API server, scheduler and kubelet add.
//
// Create makes a pod with a scheduling gate: the API server has it, and nobody does anything for it. Start removes the
// gate, and returns when the API server says that the container runs. Wait and Remove end when the API server says so,
// too. What is not timed is asked of the node's runtime (package cri): it gets the images, and tells what was applied,
// which processes there are, and what they print.
//
// A call that is timed asks the API server once. If its connection breaks while something is awaited, that has failed,
// since nobody knows when it was.
//
// If a Spec leaves something open, the cluster's default applies, with two exceptions, which are those of package cri:
// the network is the host's, and seccomp is the runtime's default.
package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/fleet/kube"
)

// Config says which cluster to use, and which of its nodes this is.
type Config struct {
	Name string // of the instance; part of names, so only characters of a run's ID
	Run  string // ID of the run
	Dir  string // directory of the run

	Kubeconfig string // empty = $KUBECONFIG, else ~/.kube/config
	Context    string // in it; empty = its current one
	Namespace  string // of the pods; empty = that of the context
	Node       string // the name of this machine in the cluster; empty = the node that has booted when this machine has
	Runtime    Runtime
}

// A Runtime drives the node's container runtime, under the same name, run and directory.
type Runtime interface {
	bench.Engine
	bench.Adopter
	bench.ProcessReporter
	bench.Addresser
	bench.Cleaner
}

// Engine makes pods.
type Engine struct {
	cfg    Config
	run    owned.Run
	prefix string // of the names of pods
	node   Runtime
	data   *datadir.Manager
	number atomic.Int64 // of the last pod

	mu      sync.Mutex
	cluster *cluster // nil until the first call
}

// A cluster is a connection to it, and what it says of itself.
type cluster struct {
	*kube.Client
	once    *kube.Client // the same, for what is timed
	pods    *pods
	node    kube.Node
	version string
}

// New returns an engine. It touches nothing until the engine is used.
func New(c Config) *Engine {
	run := owned.Run{ID: c.Run, Engine: c.Name}
	return &Engine{
		cfg: c, run: run, prefix: strings.ToLower("tare-" + run.Prefix()), node: c.Runtime,
		data: datadir.New(c.Run, c.Name, c.Dir),
	}
}

// Name is the name of this instance.
func (e *Engine) Name() string { return e.cfg.Name }

// Settled implements bench.Settler.
func (e *Engine) Settled() map[string]string {
	o := kube.Options{
		Kubeconfig: e.cfg.Kubeconfig, Context: e.cfg.Context, Namespace: e.cfg.Namespace,
	}.Settled()
	return map[string]string{"kubeconfig": o.Kubeconfig, "context": o.Context, "namespace": o.Namespace}
}

// Probe asks the API server for its version, this node and what this client may do there, and the node's container
// runtime for its own version.
func (e *Engine) Probe(ctx context.Context) (bench.EngineInfo, error) {
	c, err := e.connect(ctx)
	if err != nil {
		return bench.EngineInfo{}, err
	}
	runtime, err := e.node.Probe(ctx)
	if err != nil {
		return bench.EngineInfo{}, err
	}
	here := runtime.Fact("server") + "://" + runtime.Version
	if there := c.node.Status.Info.Runtime; numbered(there) != numbered(here) {
		return bench.EngineInfo{}, e.run.Unsupported("the container runtime of node %s is %.100q, and the one that tare "+
			"speaks to is %q: name the node's socket with the option endpoint", c.node.Name, there, here)
	}
	if err := e.mayAll(ctx, c); err != nil {
		return bench.EngineInfo{}, err
	}
	info := bench.EngineInfo{Name: e.cfg.Name, Driver: "kubernetes", Version: c.version, Facts: []bench.Label{
		{Key: "kubelet", Value: c.node.Status.Info.Kubelet},
		{Key: "node", Value: c.node.Name},
		{Key: "runtime of pods", Value: runtime.Fact("server") + " " + runtime.Version},
	}}
	for _, f := range runtime.Facts {
		if f.Key != "server" && f.Key != "exit" {
			info.Facts = append(info.Facts, f)
		}
	}
	return info, nil
}

// numbered is a runtime, such as containerd://1.6.20~ds1, without what a kubelet leaves out: what follows the numbers.
func numbered(runtime string) string {
	name, version, _ := strings.Cut(runtime, "://")
	version = strings.TrimPrefix(version, "v")
	if end := strings.IndexFunc(version, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); end >= 0 {
		version = version[:end]
	}
	return name + "://" + version
}

// verbs are what the engine does with pods.
var verbs = []string{"create", "get", "list", "watch", "patch", "delete"}

// mayAll returns an error unless this client may do all of that.
func (e *Engine) mayAll(ctx context.Context, c *cluster) error {
	for _, verb := range verbs {
		may, why, err := c.Allowed(ctx, kube.Access{Verb: verb, Resource: "pods", Namespace: c.Namespace()})
		if err != nil {
			return e.failed(ctx, "ask for rights", err)
		}
		if !may {
			return e.run.Unsupported("you may not %s pods in namespace %s (%.200s): it takes %s", verb, c.Namespace(),
				cmp.Or(why, "nobody allows it"), rights())
		}
	}
	return nil
}

// rights are what the engine needs, in words.
func rights() string {
	return "a Role with " + strings.Join(verbs, ", ") + " of pods, and a ClusterRole with list of nodes"
}

// connect finds the cluster and this node in it. It does so once, and anew when the cluster has told its last of pods.
func (e *Engine) connect(ctx context.Context) (*cluster, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cluster != nil && e.cluster.pods.failure() == nil {
		return e.cluster, nil
	}
	if err := errors.Join(bench.ValidRunID(e.cfg.Name), bench.ValidRunID(e.cfg.Run)); err != nil {
		return nil, err
	}
	c := &cluster{pods: newPods()}
	client, err := kube.Open(kube.Options{
		Kubeconfig: e.cfg.Kubeconfig, Context: e.cfg.Context, Namespace: e.cfg.Namespace, Tool: "tare",
		QPS: 1e6, AtOnce: 1 << 12, // limits of its own would be in every number
	})
	if err != nil {
		return nil, e.run.Unsupported("%w", err)
	}
	c.Client, c.once = client, client.Once()
	version, err := client.Version(ctx)
	if err != nil {
		return nil, e.unreached(ctx, "ask for the version", err)
	}
	c.version = version.Text
	if version.Major == 1 && version.Minor < 27 {
		return nil, e.run.Unsupported("Kubernetes %s has no scheduling gates: it takes 1.27 or newer", version.Text)
	}
	nodes, err := client.Nodes(ctx, "")
	if err != nil {
		return nil, e.unreached(ctx, "list nodes", err)
	}
	here, err := this(nodes, e.cfg.Node)
	if err != nil {
		return nil, e.run.Unsupported("%w", err)
	}
	c.node = *here
	if e.cluster != nil {
		e.cluster.pods.close()
	}
	e.cluster = c
	return c, nil
}

// unreached is the error of a first call. It wraps bench.ErrUnsupported if there is no server, or it does not allow it.
func (e *Engine) unreached(ctx context.Context, call string, err error) error {
	if refusal := (*kube.Error)(nil); errors.Is(err, kube.ErrForbidden) && errors.As(err, &refusal) {
		return e.run.Unsupported("you may not %s (%.200q): it takes %s", call, refusal.Message, rights())
	}
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, kube.ErrLogin) {
		return e.run.Unsupported("%w", err)
	}
	return e.failed(ctx, call, err)
}

// listening is a cluster that tells of the run's pods.
func (e *Engine) listening(ctx context.Context) (*cluster, error) {
	c, err := e.connect(ctx)
	if err == nil {
		c.pods.listen(c.Client, e.cfg.Run)
	}
	return c, err
}

// this is the node that is this machine, known by the ID of its boot; if there are several, the one of a name.
func this(nodes []kube.Node, name string) (*kube.Node, error) {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it, no node is found
	var found []*kube.Node
	for i := range nodes {
		n := &nodes[i]
		is := n.Status.Info.Boot != "" && n.Status.Info.Boot == strings.TrimSpace(string(boot))
		switch {
		case name != "" && n.Name == name && !is:
			return nil, fmt.Errorf("node %q is another machine: run tare there", name)
		case is && (name == "" || n.Name == name):
			found = append(found, n)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case name != "":
		return nil, fmt.Errorf("the cluster has no node %q", name)
	case len(found) == 0:
		return nil, fmt.Errorf("none of the cluster's %d nodes is this machine: run tare on a node", len(nodes))
	}
	return nil, fmt.Errorf("%d nodes of the cluster are this machine: name one with the option node, such as node=%s",
		len(found), found[0].Name)
}

// Prepare makes sure that the node has the image, and that the cluster takes such a pod.
func (e *Engine) Prepare(ctx context.Context, spec bench.Spec) error {
	c, err := e.listening(ctx)
	if err != nil {
		return err
	}
	if err := e.check(ctx, spec); err != nil {
		return err
	}
	if err := c.pods.hears(ctx); err != nil { // a pod that is gone before anybody listens is never told of
		return e.failed(ctx, "watch pods", err)
	}
	if err := e.data.Prepare(spec); err != nil {
		return err
	}
	onNode := spec
	onNode.Storage, onNode.Data, onNode.DataName = "", "", "" // the runtime makes no directory for it

	const tries = 3 // the runtime makes a sandbox, and the kubelet ends what it has not made
	for n := 1; ; n++ {
		err := e.node.Prepare(ctx, onNode)
		if err == nil {
			break
		}
		if n == tries || ctx.Err() != nil || errors.Is(err, bench.ErrUnsupported) {
			return err
		}
	}
	name, _, err := e.node.Stored(ctx, spec.Image)
	if err == nil {
		err = c.DryRun(ctx, e.pod(spec, nil, name, e.prefix+"0", c.node.Name))
	}
	if err != nil {
		return e.failed(ctx, "try a pod", err)
	}
	return nil
}

// Close implements bench.Engine. The runtime removes what the kubelet would remove within a minute.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	c := e.cluster
	e.cluster = nil
	e.mu.Unlock()
	if c != nil {
		c.pods.close()
	}
	return errors.Join(e.data.Close(), e.node.Close(ctx))
}

// failed adds to an error which call failed, and why if that is the end of ctx.
func (e *Engine) failed(ctx context.Context, call string, err error) error {
	return e.run.CallError(call, bench.Because(ctx, err))
}
