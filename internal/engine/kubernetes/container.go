package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/cri"
	"github.com/tare-bench/tare/internal/fleet/kube"
)

// A container is a pod from its creation to its removal.
type container struct {
	engine  *Engine
	cluster *cluster
	spec    bench.Spec
	digest  string   // of the image's configuration, as the node's runtime says
	pod     kube.Pod // as it was made

	mu             sync.Mutex
	stdout, stderr io.Writer
	attached       bool
	made           *cri.Adopted // on the node; nil until it runs
	removed        bool
}

// Create makes a pod that is not to be scheduled yet.
func (e *Engine) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	if err := e.check(spec); err != nil {
		return nil, err
	}
	c, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	imageName, digest, err := e.node.Stored(ctx, spec.Image)
	if err != nil {
		return nil, err
	}
	name := e.prefix + strconv.FormatInt(e.number.Add(1), 10)
	made := &container{engine: e, cluster: c, spec: spec, digest: digest, pod: *e.pod(spec, imageName, name, c.node.Name)}
	_, err = e.run.Create(ctx, name, func(ctx context.Context) (string, error) {
		err := c.Create(ctx, &made.pod)
		return made.pod.UID, err
	}, func(ctx context.Context, _ string) error { return made.Remove(ctx) })
	if err != nil {
		return nil, err
	}
	return made, nil
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
	c.mu.Lock()
	made := c.made
	c.mu.Unlock()
	if made != nil {
		return made.Inspect(ctx)
	}
	pod := kube.Pod{Meta: kube.Meta{Name: c.pod.Name, Namespace: c.pod.Namespace}}
	if err := c.cluster.Get(ctx, &pod); err != nil {
		return bench.Applied{}, c.failed(ctx, "inspect", err)
	}
	return applied(&pod, c.digest), nil
}

// Start lets the pod be scheduled, and returns when its container runs, or has run.
func (c *container) Start(ctx context.Context) error {
	pod := c.pod
	if err := c.cluster.Ungate(ctx, &pod); err != nil {
		return c.failed(ctx, "start", err)
	}
	var id string
	err := c.cluster.pods.await(ctx, c.pod.Name, func(pod *kube.Pod, gone bool) (ran bool, err error) {
		id, ran, err = hasRun(pod, gone)
		return ran, err
	})
	if err != nil {
		return c.failed(ctx, "start", err)
	}
	return c.adopt(ctx, id)
}

// adopt finds the container on the node, and begins to copy its output.
func (c *container) adopt(ctx context.Context, id string) error {
	made, err := c.engine.node.Adopt(ctx, id, c.spec)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = made
	if c.attached {
		return made.Follow(c.stdout, c.stderr)
	}
	return nil
}

// waits are the reasons for which a container that does not run will not, unless somebody does something.
var waits = []string{
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "ErrImageNeverPull", "InvalidImageName",
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
	case s.State.Terminated != nil && neverRan(s.State.Terminated):
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
	return slices.Contains([]string{"StartError", "ContainerCannotRun", "ContainerStatusUnknown"}, t.Reason)
}

// Wait returns when the API server says that the container has ended.
func (c *container) Wait(ctx context.Context) (bench.Exit, error) {
	var end *kube.Terminated
	err := c.cluster.pods.await(ctx, c.pod.Name, func(pod *kube.Pod, gone bool) (bool, error) {
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
	if neverRan(end) {
		return bench.Exit{}, c.failed(ctx, "wait", fmt.Errorf("the container never ran: %s: %.500q", end.Reason, end.Message))
	}
	exit := bench.Exit{Code: end.ExitCode, Signal: end.Signal, OOM: end.Reason == "OOMKilled"}
	c.mu.Lock()
	made := c.made
	c.mu.Unlock()
	if made == nil {
		return exit, nil
	}
	ended := make(chan error, 1)
	go func() { ended <- made.Finish() }()
	select {
	case err := <-ended:
		return exit, c.failed(ctx, "wait for the output", err)
	case <-ctx.Done():
		return bench.Exit{}, c.failed(ctx, "wait for the output", context.Cause(ctx))
	}
}

// Remove removes the pod, and returns when the API server says that it is gone: when the kubelet has ended its processes
// and removed its control groups.
func (c *container) Remove(ctx context.Context) error {
	c.mu.Lock()
	removed := c.removed
	c.mu.Unlock()
	if removed {
		return nil
	}
	pod := c.pod
	err := c.cluster.DeleteIn(ctx, &pod, grace)
	if err != nil && !errors.Is(err, kube.ErrNotFound) {
		return c.failed(ctx, "remove", err)
	}
	if err == nil {
		err = c.cluster.pods.await(ctx, c.pod.Name, func(_ *kube.Pod, gone bool) (bool, error) { return gone, nil })
	} else {
		err = nil
	}
	if err != nil {
		return c.failed(ctx, "remove", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removed = true
	c.cluster.pods.forget(c.pod.Name)
	if c.made != nil {
		return c.made.Finish()
	}
	return nil
}

// onNode is a container that Create has returned and that runs, as the node's runtime has it.
func (e *Engine) onNode(c bench.Container) (*cri.Adopted, error) {
	own, ok := c.(*container)
	if !ok || own.engine != e {
		return nil, fmt.Errorf("%s: container %s is not of this engine", e.cfg.Name, c.ID())
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	if own.made == nil || own.removed {
		return nil, fmt.Errorf("%s: pod %s does not run", e.cfg.Name, own.pod.Name)
	}
	return own.made, nil
}

func (c *container) failed(ctx context.Context, call string, err error) error {
	return c.engine.failed(ctx, call+" pod "+strings.TrimPrefix(c.pod.Name, "tare-"), err)
}
