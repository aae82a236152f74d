package enginetest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image/registry"
	"github.com/tare-bench/tare/internal/image/registry/registrytest"
)

// "Pull fetches … into its own store … Evict removes an image that Pull has
// fetched, with everything that was unpacked of it, and nothing else."
func pulls(t *testing.T, s *suite, p bench.Puller) {
	prepared := registrytest.Prepared(t, s.env.Images)
	r := registrytest.Listen(t, registry.Options{})
	t.Run("two that are cold", func(t *testing.T) {
		for range 2 {
			s.pullAndRun(t, p, r, registrytest.Content(t, prepared))
		}
	})
	t.Run("another name", func(t *testing.T) {
		spec := bench.Spec{Image: "127.0.0.1:1/mine/image:1"}
		if err := errors.Join(p.Pull(t.Context(), spec), p.Evict(t.Context(), spec)); err == nil ||
			len(strings.Split(err.Error(), "\n")) != 2 {
			t.Errorf("Pull and Evict of an image that nobody would find again: %v, want two errors", err)
		}
	})
	t.Run("of a run that died", func(t *testing.T) { s.pullAndDie(t, r, registrytest.Content(t, prepared)) })
	t.Run("misdeeds", func(t *testing.T) {
		for name, misdeed := range registrytest.Misbehaviours() {
			t.Run(name, func(t *testing.T) {
				t.Parallel() // some only end with their context
				s.pullFrom(t, p, registrytest.Content(t, prepared), misdeed)
			})
		}
	})
	if left := s.pulled(t, s.env.Run); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// clock is one for the registry; nothing here depends on its origin.
func clock() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}

// repository is where a run's images are.
func (s *suite) repository(env Env) string { return bench.PullRepository(env.Run, s.engine.Name()) }

func (s *suite) pullAndRun(t *testing.T, p bench.Puller, r *registry.Registry, c *registry.Content) {
	t.Helper()
	offer := r.Offer(s.repository(s.env), c, clock())
	spec := bench.Spec{Image: offer.Reference()}
	if err := p.Pull(t.Context(), spec); err != nil {
		t.Fatalf("Pull: %v", err)
	}
	if got := offer.Withdraw(); got.Missing != 0 || got.Bytes < c.Bytes || got.First <= 0 || got.Last < got.First {
		t.Errorf("traffic: %+v, want all of %d bytes", got, c.Bytes)
	}
	t.Run("run", func(t *testing.T) {
		x, exit := s.run(t, spec)
		if exit != (bench.Exit{}) || !c.Is(x.applied.Image) {
			t.Errorf("a container of what was pulled: %v, image %s; want success and %s", exit, x.applied.Image, c.Digest)
		}
	})
	for range 2 {
		if err := p.Evict(t.Context(), spec); err != nil {
			t.Errorf("Evict: %v", err)
		}
	}
	s.absent(t, spec)
}

// absent wants no image of that name.
func (s *suite) absent(t *testing.T, spec bench.Spec) {
	t.Helper()
	if err := s.engine.Prepare(t.Context(), spec); err == nil {
		t.Errorf("Prepare finds %s, which was removed", spec.Image)
	}
}

// pulled are the leftovers of a run that were pulled.
func (s *suite) pulled(t *testing.T, run string) []bench.Leftover {
	t.Helper()
	return slices.DeleteFunc(s.leftoversOf(t, run), func(l bench.Leftover) bool { return bench.PulledBy(l.ID) != run })
}

func (s *suite) pullAndDie(t *testing.T, r *registry.Registry, c *registry.Content) {
	dead := s.died(t)
	run := dead.env.Run
	p, _ := bench.As[bench.Puller](dead.engine)
	offer := r.Offer(s.repository(dead.env), c, clock())
	if err := p.Pull(t.Context(), bench.Spec{Image: offer.Reference()}); err != nil {
		t.Fatalf("Pull: %v", err)
	}
	left := s.pulled(t, run)
	if len(left) != 1 || left[0].ID != offer.Reference() {
		t.Fatalf("Leftovers of what was pulled = %v, want %s", left, offer.Reference())
	}
	s.clean(t, left[0], run)
	if left := s.pulled(t, run); len(left) > 0 {
		t.Errorf("Leftovers after they were removed: %v", left)
	}
}

// pullFrom pulls from a registry that misbehaves.
func (s *suite) pullFrom(t *testing.T, p bench.Puller, c *registry.Content, misdeed func(http.Handler) http.Handler) {
	spec := bench.Spec{Image: registrytest.Serve(t, c, s.repository(s.env), misdeed)}
	const enough = 2 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), enough)
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- p.Pull(ctx, spec) }()
	select {
	case err := <-failed:
		if err == nil || errors.Is(err, bench.ErrUnsupported) {
			t.Errorf("Pull = %v, want an error that is not conclusive", err)
		}
		t.Logf("Pull: %.300v", err)
	case <-time.After(testTimeout):
		t.Fatal("Pull does not return although its context has ended")
	}
	s.absent(t, spec)
}
