// Package kubernetes makes containers as pods of a cluster, on the node that tare runs on. Beside engine cri, which asks
// the node's container runtime for the same, it shows what API server, scheduler and kubelet add.
//
// Create makes a pod with a scheduling gate: the API server has it, and nobody does anything for it. Start removes the
// gate, and returns when the API server says that the container runs. Wait and Remove end when the API server says so,
// too. What is not timed is asked of the node's runtime (package cri): it gets the images, and tells what was applied,
// which processes there are, and what they print.
//
// If a Spec leaves something open, the cluster's default applies, with two exceptions, which are those of package cri:
// the network is the host's, and seccomp is the runtime's default.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

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

// Probe asks the API server for its version and this node, and the node's container runtime for its own.
func (e *Engine) Probe(ctx context.Context) (bench.EngineInfo, error) {
	c, err := e.connect(ctx)
	if err != nil {
		return bench.EngineInfo{}, err
	}
	runtime, err := e.node.Probe(ctx)
	if err != nil {
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

// connect finds the cluster and this node in it, and begins to watch the run's pods. It does so once.
func (e *Engine) connect(ctx context.Context) (*cluster, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cluster != nil {
		return e.cluster, nil
	}
	if err := errors.Join(bench.ValidRunID(e.cfg.Name), bench.ValidRunID(e.cfg.Run)); err != nil {
		return nil, err
	}
	client, err := kube.Open(kube.Options{
		Kubeconfig: e.cfg.Kubeconfig, Context: e.cfg.Context, Namespace: e.cfg.Namespace, Tool: "tare",
		QPS: 1e6, // a rate of its own would be in every number
	})
	if err != nil {
		return nil, e.run.Unsupported("%w", err)
	}
	c := &cluster{Client: client}
	version, err := client.Version(ctx)
	if err != nil {
		return nil, e.run.Unsupported("%w", err)
	}
	c.version = version.Text
	if version.Major == 1 && version.Minor < 27 {
		return nil, e.run.Unsupported("Kubernetes %s has no scheduling gates: it takes 1.27 or newer", version.Text)
	}
	nodes, err := client.Nodes(ctx, "")
	if err != nil {
		return nil, e.run.CallError("list nodes", err)
	}
	here, err := this(nodes, e.cfg.Node)
	if err != nil {
		return nil, e.run.Unsupported("%w", err)
	}
	c.node = *here
	c.pods = watch(client, e.cfg.Run)
	e.cluster = c
	return c, nil
}

// this is the node of that name, or without one the node that is this machine, known by the ID of its boot.
func this(nodes []kube.Node, name string) (*kube.Node, error) {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it, no node is found
	var found []*kube.Node
	for i := range nodes {
		n := &nodes[i]
		if n.Name == name || name == "" && n.Status.Info.Boot != "" && n.Status.Info.Boot == strings.TrimSpace(string(boot)) {
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

// Prepare makes sure that the node has the image.
func (e *Engine) Prepare(ctx context.Context, spec bench.Spec) error {
	if _, err := e.connect(ctx); err != nil {
		return err
	}
	if err := e.check(ctx, spec); err != nil {
		return err
	}
	if err := e.data.Prepare(spec); err != nil {
		return err
	}
	spec.Storage, spec.Data, spec.DataName = "", "", "" // the runtime makes no directory for it
	return e.node.Prepare(ctx, spec)
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
