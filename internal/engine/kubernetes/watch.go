package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/fleet/kube"
)

// pods are those of a run, as the API server says.
type pods struct {
	ctx   context.Context // of listening
	end   context.CancelFunc
	begin sync.Once
	ended sync.WaitGroup

	mu      sync.Mutex
	last    map[string]kube.Change // by the pod's name
	changed chan struct{}          // closed, and made anew, with each change
	deaf    bool                   // there is no connection: what happens is heard late
	gaps    int                    // how often it was so
	failed  error                  // why nothing more is heard
}

func newPods() *pods {
	p := &pods{last: map[string]kube.Change{}, changed: make(chan struct{}), deaf: true}
	p.ctx, p.end = context.WithCancel(context.Background())
	return p
}

// listen begins to listen, once.
func (p *pods) listen(c *kube.Client, run string) {
	p.begin.Do(func() {
		p.ended.Go(func() {
			err := c.Listen(p.ctx, "", owned.Label+"="+run, func(change kube.Change) error {
				p.tell(change)
				return nil
			}, p.deafen)
			p.fail(err)
		})
	})
}

// fail ends the waiting of all.
func (p *pods) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = fmt.Errorf("the API server tells nothing more of pods: %w", err)
	close(p.changed)
}

// failure is why nothing more is heard; nil if something may be.
func (p *pods) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

func (p *pods) tell(change kube.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return
	}
	p.last[change.Pod.Name] = change
	p.wake()
}

// wake has those who wait look again.
func (p *pods) wake() {
	if p.failed == nil {
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// hears waits until there is a connection.
func (p *pods) hears(ctx context.Context) error {
	for {
		p.mu.Lock()
		deaf, changed, failed := p.deaf, p.changed, p.failed
		p.mu.Unlock()
		switch {
		case failed != nil:
			return failed
		case !deaf:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// deafen notes that what happens is heard late from now on, or no longer.
func (p *pods) deafen(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deaf = is; is {
		p.gaps++
	}
	p.wake()
}

// A moment is when something began that is awaited: by how many times before that the connection was lost.
type moment int

// inGap is a moment without a connection.
const inGap moment = -1

// now is taken before the call that makes happen what is awaited.
func (p *pods) now() moment {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deaf {
		return inGap
	}
	return moment(p.gaps)
}

// errGap is the error of what was awaited while there was no connection.
var errGap = errors.New("the connection to the API server broke meanwhile, so nobody knows how long it took")

// await returns when is says that a pod is as it should be, or its error. The pod is nil before anything was heard of
// it. What may have been heard late, since the connection was lost after that moment, is errGap.
func (p *pods) await(
	ctx context.Context, since moment, name string, is func(pod *kube.Pod, gone bool) (bool, error),
) error {
	for {
		p.mu.Lock()
		last, changed, gaps, failed := p.last[name], p.changed, p.gaps, p.failed
		p.mu.Unlock()
		switch done, err := is(last.Pod, last.Gone); {
		case err != nil:
			return err
		case done && moment(gaps) != since:
			return errGap
		case done:
			return nil
		case failed != nil:
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

// close ends the listening.
func (p *pods) close() {
	p.end()
	p.ended.Wait()
}
