package owned

import (
	"context"
	"errors"
	"sync"
	"time"
)

// pullGrace is how long what a pull has left is looked for after its context has ended:
// an engine learns of that by the connection, and then stops.
const pullGrace = 10 * time.Second

// Images are those that an engine has for a run. K is what one is found by, and V what
// the driver knows of it. The zero value is ready.
type Images[K comparable, V any] struct {
	finding sync.Mutex // held while an image is found or loaded
	found   map[K]V

	mu   sync.Mutex
	sent map[string]bool // names that the engine may have an image under because of the run
}

// Of returns an image, which find finds or loads. That is done once for each key.
func (i *Images[K, V]) Of(key K, find func() (V, error)) (V, error) {
	i.finding.Lock()
	defer i.finding.Unlock()
	if v, ok := i.found[key]; ok {
		return v, nil
	}
	v, err := find()
	if err != nil {
		return v, err
	}
	if i.found == nil {
		i.found = map[K]V{}
	}
	i.found[key] = v
	return v, nil
}

// Forget has the next Of find an image again.
func (i *Images[K, V]) Forget(key K) {
	i.finding.Lock()
	defer i.finding.Unlock()
	delete(i.found, key)
}

// Send notes a name before the engine is asked to have an image under it: it may have one
// also if the answer is lost.
func (i *Images[K, V]) Send(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.sent == nil {
		i.sent = map[string]bool{}
	}
	i.sent[name] = true
}

// Sent reports whether a name was noted, and not evicted since.
func (i *Images[K, V]) Sent(name string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.sent[name]
}

// Pull has the engine pull an image. What is left of one that failed is evicted.
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

// Evict has an image removed that was pulled.
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

// Close has every image removed whose name was noted, and forgets all.
func (i *Images[K, V]) Close(remove func(name string) error) (err error) {
	i.finding.Lock()
	defer i.finding.Unlock()
	i.mu.Lock()
	defer i.mu.Unlock()
	for name := range i.sent {
		err = errors.Join(err, remove(name))
	}
	clear(i.found)
	clear(i.sent)
	return err
}
