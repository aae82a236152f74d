package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// "Remove kills and deletes the container … whatever its state. It may be
// called twice, and … works after the trial's has ended."
func removeInEveryState(t *testing.T, s *suite) {
	for name, enter := range map[string]func(t *testing.T) *trial{
		"created":  func(t *testing.T) *trial { return s.create(t, s.spec("hold")) },
		"attached": func(t *testing.T) *trial { x := s.create(t, s.spec("hold")); x.attach(t); return x },
		"running":  func(t *testing.T) *trial { return s.ready(t, s.spec("hold"), "ready\n") },
		"stubborn": func(t *testing.T) *trial { return s.ready(t, s.spec("stubborn"), "ready\n") },
		"exited":   func(t *testing.T) *trial { x, _ := s.run(t, s.spec("exit", "3")); return x },
		"failed":   s.failedStart,
	} {
		t.Run(name, func(t *testing.T) {
			x := enter(t)
			if x == nil {
				return // there is nothing to remove
			}
			s.remove(t, x)
			s.remove(t, x)
		})
	}
}

// failedStart returns a container that could not be started, or nil if the error came before it
// existed.
func (s *suite) failedStart(t *testing.T) *trial {
	t.Helper()
	x := s.missingProgram(t)
	if x != nil {
		_ = x.Start(t.Context()) // may only fail in Wait
	}
	return x
}

// A Remove that overtakes Wait ends it.
func removeWhileWaiting(t *testing.T, s *suite) {
	x := s.ready(t, s.spec("stubborn"), "ready\n")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = x.Wait(t.Context()) // killed or gone: the engine's choice
	}()
	s.remove(t, x)
	awaitEnd(t, "Wait", ended)
}

// "Kills … the container with everything in it."
func removeKillsEverything(t *testing.T, s *suite) {
	x := s.ready(t, s.spec("fork", "20"), "forked 20\n")
	if n := len(x.processes(t)); n < 21 && !s.Sandboxed {
		t.Fatalf("%d processes inside, want 21", n)
	}
	s.remove(t, x)
}

// awaitEnd fails the test if ended is not closed in time.
func awaitEnd(t *testing.T, what string, ended <-chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(testTimeout):
		t.Fatalf("%s has not returned after %v", what, testTimeout)
	}
}

// "If … ctx ends before it returns, nothing is left behind."
func cancelledCreate(t *testing.T, s *suite) {
	s.remove(t, s.create(t, s.spec("hold"))) // makes everything that is made only once
	spec, token := s.prepared(t, s.spec("hold"))
	before := s.traces(t, s.env)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := s.engine.Create(ctx, spec); err == nil {
		s.adopt(t, c, spec, token)
		t.Error("Create with a context that has ended succeeds")
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("Create = %v, want context.Canceled", err)
	}
	// At any other moment there is either a complete container or nothing at all.
	longer := time.Duration(2)
	if testing.Short() {
		longer = 4
	}
	for after := 100 * time.Microsecond; after < 200*time.Millisecond; after *= longer {
		s.createUntil(t, spec, token, after)
		// The things that Prepare made may be used up.
		known := func(trace string) bool { return slices.Contains(before, trace) }
		if left := slices.DeleteFunc(s.traces(t, s.env), known); len(left) > 0 {
			t.Fatalf("Create that was cancelled after %v has left %q", after, left)
		}
	}
}

func (s *suite) createUntil(t *testing.T, spec bench.Spec, token string, after time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	c, err := s.engine.Create(ctx, spec)
	switch {
	case err == nil:
		s.remove(t, s.adopt(t, c, spec, token))
	case !errors.Is(err, context.DeadlineExceeded):
		t.Errorf("Create = %v after its context ended, want context.DeadlineExceeded", err)
	}
}

func cancelledStart(t *testing.T, s *suite) {
	x := s.create(t, s.spec("hold"))
	x.attach(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.Start(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Start = %v after its context ended, want context.Canceled", err)
	}
	s.remove(t, x)
}

// "When ctx ends first, Wait returns its error and the container runs on."
func cancelledWait(t *testing.T, s *suite) {
	x := s.ready(t, s.spec("hold"), "ready\n")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var exit bench.Exit
	var err error
	go func() {
		defer close(ended)
		exit, err = x.Wait(ctx)
	}()
	cancel()
	awaitEnd(t, "Wait", ended)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Wait = %v, %v after its context ended, want context.Canceled", exit, err)
	}
	if !s.Simulated && len(x.processes(t)) == 0 {
		t.Error("the container does not run on after Wait's context ended")
	}
	s.remove(t, x)
}

// "Wait may be called by several goroutines at once, and again later": the end of one call's
// context does not end the others, and each returns after all output has arrived.
func concurrentWaits(t *testing.T, s *suite) {
	const size = 1 << 20
	for _, test := range []struct {
		task []string
		want bench.Exit
		out  int // bytes that it prints
	}{
		{[]string{"sleep", "500ms"}, bench.Exit{}, 0},
		{[]string{"exit", "3"}, bench.Exit{Code: 3}, 0},
		{[]string{"print", fmt.Sprint(size)}, bench.Exit{}, size},
	} {
		if got := s.waitAtOnce(t, test.task, test.want); !s.arrived(got, test.out) {
			t.Errorf("%v: %d bytes have arrived in the end, want %d", test.task, got, test.out)
		}
	}
}

// waitAtOnce waits for a container several times at once, and reports how many bytes of output have arrived in the end.
func (s *suite) waitAtOnce(t *testing.T, task []string, want bench.Exit) (arrived int) {
	x := s.started(t, s.spec(task...))
	var all sync.WaitGroup
	after := make(chan int, 4) // bytes that had arrived when a Wait returned
	wait := func() {
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		if exit, err := x.Wait(ctx); err != nil || exit != want {
			t.Errorf("%v: Wait = %v, %v, want %v", task, exit, err, want)
		}
		after <- len(x.stdout.String())
	}
	for range 3 {
		all.Go(wait)
	}
	all.Go(func() {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		if exit, err := x.Wait(ctx); err != nil && !errors.Is(err, context.Canceled) || err == nil && exit != want {
			t.Errorf("%v: Wait = %v, %v with a context that ends, want %v or context.Canceled", task, exit, err, want)
		}
	})
	all.Wait()
	wait()
	s.remove(t, x)
	arrived = len(x.stdout.String())
	for close(after); len(after) > 0; {
		if n := <-after; n != arrived {
			t.Errorf("%v: Wait returned after %d bytes, and then there were %d", task, n, arrived)
		}
	}
	return arrived
}
