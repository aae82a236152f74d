package kubernetes

import (
	"context"
	"fmt"
	"sync"

	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/fleet/kube"
)

// pods are those of a run, as the API server says.
type pods struct {
	end   context.CancelFunc
	ended sync.WaitGroup

	mu      sync.Mutex
	last    map[string]kube.Change // by the pod's name
	changed chan struct{}          // closed, and made anew, with each change
	failed  error                  // why nothing more is heard
}

// watch begins to listen.
func watch(c *kube.Client, run string) *pods {
	ctx, end := context.WithCancel(context.Background())
	p := &pods{end: end, last: map[string]kube.Change{}, changed: make(chan struct{})}
	p.ended.Go(func() {
		err := c.Watch(ctx, "", owned.Label+"="+run, func(change kube.Change) error {
			p.tell(change)
			return nil
		})
		p.fail(err)
	})
	return p
}

// fail ends the waiting of all.
func (p *pods) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = fmt.Errorf("the API server tells nothing more of pods: %w", err)
	close(p.changed)
}

func (p *pods) tell(change kube.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return
	}
	p.last[change.Pod.Name] = change
	close(p.changed)
	p.changed = make(chan struct{})
}

// await returns when is says that a pod is as it should be, or its error. The pod is nil before anything was heard of it.
func (p *pods) await(ctx context.Context, name string, is func(pod *kube.Pod, gone bool) (bool, error)) error {
	for {
		p.mu.Lock()
		last, changed, failed := p.last[name], p.changed, p.failed
		p.mu.Unlock()
		if done, err := is(last.Pod, last.Gone); done || err != nil {
			return err
		}
		if failed != nil {
			return failed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// forget drops what is known of a pod.
func (p *pods) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, name)
}

func (p *pods) close() {
	p.end()
	p.ended.Wait()
}
