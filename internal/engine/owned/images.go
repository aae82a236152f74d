package owned

import (
	"context"
	"errors"
	"sync"
	"time"
)

// pullGrace is how long tare looks for the remains of a pull after its context has ended. The
// engine notices the closed connection, and then stops.
const pullGrace = 10 * time.Second

// Images are the images that an engine has for a run. K is the key of an image, and V what the
// driver knows about it. The zero value is ready to use.
type Images[K comparable, V any] struct {
	findMu sync.Mutex // held while an image is found or loaded
	cached map[K]V

	mu   sync.Mutex
	sent map[string]bool // names under which the run may have put images into the engine
}

// Get returns an image. It calls find, which finds or loads the image, once for each key.
func (i *Images[K, V]) Get(key K, find func() (V, error)) (V, error) {
	i.findMu.Lock()
	defer i.findMu.Unlock()
	if v, ok := i.cached[key]; ok {
		return v, nil
	}
	v, err := find()
	if err != nil {
		return v, err
	}
	if i.cached == nil {
		i.cached = map[K]V{}
	}
	i.cached[key] = v
	return v, nil
}

// Forget makes the next Of call find again.
func (i *Images[K, V]) Forget(key K) {
	i.findMu.Lock()
	defer i.findMu.Unlock()
	delete(i.cached, key)
}

// Send notes a name before the engine gets an image under it, because the engine may have the image
// even if its answer is lost.
func (i *Images[K, V]) Send(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.sent == nil {
		i.sent = map[string]bool{}
	}
	i.sent[name] = true
}

// Sent reports whether a name was noted and not evicted since.
func (i *Images[K, V]) Sent(name string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.sent[name]
}

// Pull makes the engine pull an image. If the pull fails, its remains are evicted.
func (i *Images[K, V]) Pull(
	ctx context.Context, name string, pull func() error, evict func(ctx context.Context) error,
) error {
	i.Send(name)
	err := pull()
	if err == nil {
		return nil
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), pullGrace)
	defer cancel()
	return errors.Join(err, evict(clean))
}

// Evict removes an image that was pulled.
func (i *Images[K, V]) Evict(key K, name string, remove func() error) error {
	i.Forget(key)
	if err := remove(); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.sent, name)
	return nil
}

// Close removes every image whose name was noted, and forgets all images.
func (i *Images[K, V]) Close(remove func(name string) error) (err error) {
	i.findMu.Lock()
	defer i.findMu.Unlock()
	i.mu.Lock()
	defer i.mu.Unlock()
	for name := range i.sent {
		err = errors.Join(err, remove(name))
	}
	clear(i.cached)
	clear(i.sent)
	return err
}
