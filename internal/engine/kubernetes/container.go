package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

// A container is a pod from its creation to its removal.
type container struct {
	engine  *Engine
	cluster *cluster
	spec    bench.Spec
	image   string       // its name on the node
	digest  string       // of the image's configuration, as the node's runtime says
	data    *datadir.Dir // on the host; nil if the spec needs none
	pod     kube.Pod     // as it was made

	mu             sync.Mutex
	stdout, stderr io.Writer
	attached       bool
	onNode         *onNode // nil until it has run
	removing       bool    // it was asked for
	removed        bool
}

// An onNode is a container as the node's runtime has it.
type onNode struct {
	found chan struct{} // closed when the rest is set
	made  bench.Container
	err   error
}

// Create makes a pod that is not to be scheduled yet.
func (e *Engine) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	if err := e.check(ctx, spec); err != nil {
		return nil, err
	}
	c, err := e.listening(ctx)
	if err != nil {
		return nil, err
	}
	imageName, digest, err := e.node.Stored(ctx, spec.Image)
	if err != nil {
		return nil, err
	}
	name := e.prefix + strconv.FormatInt(e.number.Add(1), 10)
	data, err := e.data.Take(spec)
	if err != nil {
		return nil, err
	}
	made := &container{
		engine: e, cluster: c, spec: spec, image: imageName, digest: digest, data: data,
		pod: *e.pod(spec, data, imageName, name, c.node.Name),
	}
	_, err = e.run.Create(ctx, name, func(ctx context.Context) (string, error) {
		err := c.once.Create(ctx, &made.pod)
		if refusal := (*kube.Error)(nil); errors.As(err, &refusal) && refusal.Code/100 != 4 { // it may have been made
			err = errors.Join(err, made.undo(ctx))
		}
		return made.pod.UID, err
	}, func(ctx context.Context, _ string) error { return made.undo(ctx) })
	if err != nil {
		return nil, errors.Join(err, data.Remove())
	}
	return made, nil
}

// undo removes the pod if the API server has made it, though nobody heard so.
func (c *container) undo(ctx context.Context) error {
	clean, cancel := owned.CleanUp(ctx)
	defer cancel()
	pod := kube.Pod{Meta: kube.Meta{Name: c.pod.Name}}
	err := c.cluster.Get(clean, &pod)
	if err == nil && pod.Labels[owned.Label] == c.engine.cfg.Run {
		err = c.cluster.DeleteIn(clean, &pod, grace)
	}
	if err != nil && !errors.Is(err, kube.ErrNotFound) {
		return fmt.Errorf("look whether pod %s was made: %w", c.pod.Name, err)
	}
	return nil
}

// ID is the pod's, which is in the names of its control groups.
func (c *container) ID() string { return c.pod.UID }

// Attach notes the writers. The runtime's log is copied to them once there is one.
func (c *container) Attach(_ context.Context, stdout, stderr io.Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stdout, c.stderr, c.attached = stdout, stderr, true
	return nil
}

// Inspect says what the API server has of a pod that does not run yet, and then what the node's runtime and the kernel
// have.
func (c *container) Inspect(ctx context.Context) (bench.Applied, error) {
	made, err := c.here(ctx)
	if err != nil {
		return bench.Applied{}, err
	}
	if made != nil {
		return made.Inspect(ctx)
	}
	pod := kube.Pod{Meta: kube.Meta{Name: c.pod.Name, Namespace: c.pod.Namespace}}
	if err := c.cluster.Get(ctx, &pod); err != nil {
		return bench.Applied{}, c.failed(ctx, "inspect", err)
	}
	a, err := applied(&pod, c.spec, c.data.At(), c.image)
	if err != nil {
		return bench.Applied{}, fmt.Errorf("%s: pod %s: %w", c.engine.cfg.Name, c.pod.Name, err)
	}
	a.Image = c.digest // the node has no other image of that name
	return a, nil
}

// Start lets the pod be scheduled, and returns when its container runs, or has run.
func (c *container) Start(ctx context.Context) error {
	pod, began := c.pod, c.cluster.pods.now()
	if err := c.cluster.once.Ungate(ctx, &pod, gate); err != nil {
		return c.failed(ctx, "start", err)
	}
	var id string
	err := c.cluster.pods.await(ctx, began, c.pod.Name, func(pod *kube.Pod, gone bool) (ran bool, err error) {
		id, ran, err = hasRun(pod, gone)
		return ran, err
	})
	if err != nil {
		return c.failed(ctx, "start", err)
	}
	c.adopt(id)
	return nil
}

// adopt looks for the container on the node, and begins to copy its output. Start does not wait for it, because it is
// no part of what starts a pod.
func (c *container) adopt(id string) {
	n := &onNode{found: make(chan struct{})}
	c.mu.Lock()
	c.onNode = n
	c.mu.Unlock()
	go func() {
		defer close(n.found)
		ctx, cancel := context.WithTimeout(context.Background(), adoptLimit)
		defer cancel()
		if n.made, n.err = c.engine.node.Adopt(ctx, id, c.spec, c.data.At()); n.err != nil {
			return
		}
		if c.attached {
			n.err = n.made.Attach(ctx, c.stdout, c.stderr)
		}
	}()
}

// adoptLimit is how long a container that runs is looked for on the node.
const adoptLimit = 10 * time.Second

// here is the container on the node; nil if it has not run.
func (c *container) here(ctx context.Context) (bench.Container, error) {
	c.mu.Lock()
	n := c.onNode
	c.mu.Unlock()
	if n == nil {
		return nil, nil
	}
	select {
	case <-n.found:
		return n.made, n.err
	case <-ctx.Done():
		return nil, c.failed(ctx, "look for the container of", context.Cause(ctx))
	}
}

// waits are the reasons for which a container that does not run will not, unless somebody does something.
var waits = []string{
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "ErrImageNeverPull", "InvalidImageName",
	"ErrImagePull", "ImagePullBackOff", // of a cluster that always pulls: no registry has the image
}

// hasRun reports whether a pod's container runs or has run, and its ID. The error is why it will not.
func hasRun(pod *kube.Pod, gone bool) (id string, ran bool, err error) {
	switch {
	case gone:
		return "", false, errors.New("the pod is gone")
	case pod == nil:
		return "", false, nil
	case pod.Status.Phase == "Failed" && pod.Status.Reason != "":
		return "", false, fmt.Errorf("%s: %.500q", pod.Status.Reason, pod.Status.Message)
	}
	s := pod.ContainerOf(containerName)
	if s == nil {
		if c := kube.ConditionOf(pod.Status.Conditions, "PodScheduled"); c != nil && c.Reason == "Unschedulable" {
			return "", false, fmt.Errorf("the scheduler finds no place: %.500q", c.Message)
		}
		return "", false, nil
	}
	switch {
	case s.State.Terminated != nil && (neverRan(s.State.Terminated) || isLost(s.State.Terminated)):
		return "", false, fmt.Errorf("%s: %.500q", s.State.Terminated.Reason, s.State.Terminated.Message)
	case s.State.Running != nil, s.State.Terminated != nil:
		return s.ID, true, nil
	case s.State.Waiting != nil && slices.Contains(waits, s.State.Waiting.Reason):
		return "", false, fmt.Errorf("%s: %.500q", s.State.Waiting.Reason, s.State.Waiting.Message)
	}
	return "", false, nil
}

// neverRan reports whether a container ended before its program began.
func neverRan(t *kube.Terminated) bool {
	return slices.Contains([]string{"StartError", "ContainerCannotRun"}, t.Reason)
}

// isLost reports whether the kubelet has lost a container, and does not know whether it has run.
func isLost(t *kube.Terminated) bool { return t.Reason == "ContainerStatusUnknown" }

// Wait returns when the API server says that the container has ended.
func (c *container) Wait(ctx context.Context) (bench.Exit, error) {
	var end *kube.Terminated
	err := c.cluster.pods.await(ctx, c.cluster.pods.now(), c.pod.Name, func(pod *kube.Pod, gone bool) (bool, error) {
		if gone {
			return false, errors.New("the pod is gone")
		}
		if pod == nil {
			return false, nil
		}
		if s := pod.ContainerOf(containerName); s != nil {
			end = s.State.Terminated
		}
		return end != nil, nil
	})
	if err != nil {
		return bench.Exit{}, c.failed(ctx, "wait", err)
	}
	switch {
	case neverRan(end):
		err = fmt.Errorf("the container never ran: %s: %.500q", end.Reason, end.Message)
	case isLost(end):
		err = fmt.Errorf("the kubelet has lost the container: %.500q", end.Message)
	}
	if err != nil {
		return bench.Exit{}, c.failed(ctx, "wait", err)
	}
	exit := bench.Exit{Code: end.ExitCode, Signal: end.Signal, OOM: end.Reason == "OOMKilled"}
	made, err := c.here(ctx)
	if err != nil || made == nil {
		return exit, err
	}
	_, err = made.Wait(ctx) // until its output is copied
	return exit, err
}

// Remove removes the pod, and returns when the API server says that it is gone: when the kubelet has ended its
// processes and removed its control groups.
//
// Only the first call is timed: if somebody else has removed the pod, that is an error of it.
func (c *container) Remove(ctx context.Context) error {
	if c.isRemoved() {
		return nil
	}
	client, first := c.cluster.Client, c.isFirstRemove()
	if first {
		client = c.cluster.once
	}
	pod, began := c.pod, c.cluster.pods.now()
	err := client.DeleteIn(ctx, &pod, grace)
	switch {
	case errors.Is(err, kube.ErrNotFound) && !first:
		err = nil
	case err == nil:
		err = c.cluster.pods.await(ctx, began, c.pod.Name, func(_ *kube.Pod, gone bool) (bool, error) { return gone, nil })
	}
	if err != nil && (first || !errors.Is(err, errGap)) {
		return c.failed(ctx, "remove", err)
	}
	c.cluster.pods.forget(c.pod.Name)
	if made, _ := c.here(ctx); made != nil { // if it was not found, nothing is copied
		err = made.Remove(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removed = true
	return errors.Join(err, c.data.Remove())
}

// Gone implements bench.Verifier. The kubelet removes a pod's control groups a moment after the API server has
// forgotten the pod.
func (e *Engine) Gone(ctx context.Context, c bench.Container) error {
	own, err := bench.Own[*container](c, e.cfg.Name)
	if err != nil {
		return err
	}
	groups, err := cgroup.Detect("/")
	if errors.Is(err, cgroup.ErrNone) {
		return nil
	}
	if err != nil {
		return own.failed(ctx, "look for the control groups of", err)
	}
	for {
		left, err := hasGroup(groups, "/", own.pod.UID)
		if err == nil && !left {
			return nil
		}
		if err == nil {
			err = bench.Sleep(ctx, lookEvery)
		}
		if err != nil {
			return own.failed(ctx, "see the control groups go of", err)
		}
	}
}

// hasGroup reports whether there is a control group of a pod, of whatever class.
func hasGroup(h *cgroup.Hierarchy, below, uid string) (bool, error) {
	groups, err := h.List(below)
	for _, group := range groups {
		name := path.Base(group)
		if strings.Contains(name, uid) || strings.Contains(name, strings.ReplaceAll(uid, "-", "_")) { // as with systemd
			return true, nil
		}
		if found, err := hasGroup(h, group, uid); found || err != nil {
			return found, err
		}
	}
	return false, err
}

// hereOf is a container of this engine that runs, as the node's runtime has it.
func (e *Engine) hereOf(ctx context.Context, c bench.Container) (bench.Container, error) {
	own, err := bench.Own[*container](c, e.cfg.Name)
	if err != nil {
		return nil, err
	}
	made, err := own.here(ctx)
	if err == nil && (made == nil || own.isRemoved()) {
		err = fmt.Errorf("%s: pod %s does not run", e.cfg.Name, own.pod.Name)
	}
	return made, err
}

func (c *container) isFirstRemove() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.removing
	c.removing = true
	return first
}

func (c *container) isRemoved() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.removed
}

func (c *container) failed(ctx context.Context, call string, err error) error {
	return c.engine.failed(ctx, call+" pod "+strings.TrimPrefix(c.pod.Name, "tare-"), err)
}
