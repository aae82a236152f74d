package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// testTimeout is the time after which an engine counts as hanging.
const testTimeout = time.Minute

// A suite is what the subtests share.
type suite struct {
	Options
	env    Env
	engine bench.Engine

	cleaned bool         // already removed by other means: the first Remove may fail
	plain   *agent.Facts // see plainFacts

	mu sync.Mutex
	n  int // number of containers so far
}

func newSuite(t *testing.T, o Options) *suite {
	t.Helper()
	env := NewEnv(t, imagetest.Library(t))
	return &suite{Options: o, env: env, engine: o.Open(t, env)}
}

// close closes the shared engine, and checks that the suite left nothing behind.
func (s *suite) close(t *testing.T) {
	if err := s.engine.Close(context.Background()); err != nil {
		t.Errorf("Close: %v", err)
	}
	s.nothingLeft(t, s.env)
	entries, err := os.ReadDir(s.env.Dir)
	noError(t, err)
	for _, e := range entries {
		t.Errorf("left in the run's directory after Close: %s", e.Name())
	}
}

// died returns the suite of another run on the same machine, which died: whatever it left is removed
// by others. At the end of the subtest it releases what it still holds in this process.
func (s *suite) died(t *testing.T) *suite {
	t.Helper()
	env := newSite(t, filepath.Dir(s.env.Dir), s.env.Images)
	other := &suite{Options: s.Options, env: env, engine: s.Open(t, env), cleaned: true}
	closes(t, other.engine)
	return other
}

// cleaner is the engine as one that cleans up after a crash.
func (s *suite) cleaner(t *testing.T) bench.Cleaner {
	t.Helper()
	cleaner, ok := bench.As[bench.Cleaner](s.engine)
	if !ok {
		t.Fatal("the engine is no bench.Cleaner: nothing could be removed after a crash")
	}
	return cleaner
}

// leftoversOf lists what a run left.
func (s *suite) leftoversOf(t *testing.T, run string) []bench.Leftover {
	t.Helper()
	return list(t, s.cleaner(t), func(r string) bool { return r == run })
}

func (s *suite) unsupported(f Feature) bool { return slices.Contains(s.Unsupported, f) }

// spec asks for a task of the agent, with the defaults of the engine.
func (s *suite) spec(task ...string) bench.Spec {
	return bench.Spec{Argv: append([]string{agent.Path}, task...)}
}

// A trial is one container of a subtest.
type trial struct {
	bench.Container
	suite          *suite
	spec           bench.Spec
	token          string // "KEY=VALUE" in the environment of every process inside
	stdout, stderr *buffer
	applied        bench.Applied
}

// withToken returns spec with a token of its own.
func (s *suite) withToken(spec bench.Spec) (bench.Spec, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	token := fmt.Sprintf("%s%d.", tokenOf(s.env), s.n)
	spec.Env = append(slices.Clone(spec.Env), token)
	return spec, token
}

// prepared returns spec with a token of its own, after Prepare.
func (s *suite) prepared(t *testing.T, spec bench.Spec) (bench.Spec, string) {
	t.Helper()
	spec, token := s.withToken(spec)
	noError(t, s.engine.Prepare(t.Context(), spec))
	return spec, token
}

// create makes a container, and removes it when the subtest ends.
func (s *suite) create(t *testing.T, spec bench.Spec) *trial {
	t.Helper()
	spec, token := s.prepared(t, spec)
	c, err := s.engine.Create(t.Context(), spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	return s.adopt(t, c, spec, token)
}

// adopt makes the end of the subtest remove a container.
func (s *suite) adopt(t *testing.T, c bench.Container, spec bench.Spec, token string) *trial {
	t.Helper()
	if c.ID() == "" {
		t.Error("the container has no ID")
	}
	x := &trial{Container: c, suite: s, spec: spec, token: token, stdout: newBuffer(), stderr: newBuffer()}
	t.Cleanup(func() { s.remove(t, x) })
	return x
}

// remove removes a container with a context of its own, as the runner does.
func (s *suite) remove(t *testing.T, x *trial) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	err := x.Remove(ctx)
	if err != nil && (s.cleaned || s.KnownFault != nil && s.KnownFault(err)) {
		err = x.Remove(ctx)
	}
	if err != nil {
		t.Errorf("Remove: %v", err)
	}
	if v, ok := bench.As[bench.Verifier](s.engine); ok {
		if err := v.Gone(ctx, x.Container); err != nil {
			t.Errorf("Gone, after Remove: %v", err)
		}
	}
	s.requireGone(t, x)
}

// attach collects the output, and checks that the applied settings are the requested ones.
func (x *trial) attach(t *testing.T) {
	t.Helper()
	if err := x.Attach(t.Context(), x.stdout, x.stderr); err != nil {
		t.Fatalf("Attach: %v", err)
	}
	applied, err := x.Inspect(t.Context())
	if err != nil {
		t.Fatalf("Inspect: %v", err)
	}
	if err := bench.Attest(x.spec, applied); err != nil {
		t.Errorf("Inspect: %v", err)
	}
	x.applied = applied
}

func (x *trial) start(t *testing.T) {
	t.Helper()
	if err := x.Start(t.Context()); err != nil {
		t.Fatalf("Start: %v", err)
	}
}

func (x *trial) wait(t *testing.T) bench.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	exit, err := x.Wait(ctx)
	if err != nil {
		t.Fatalf("Wait: %v (stderr: %.300q)", err, x.stderr.String())
	}
	return exit
}

// started creates a container, attaches to it and starts it.
func (s *suite) started(t *testing.T, spec bench.Spec) *trial {
	t.Helper()
	x := s.create(t, spec)
	x.attach(t)
	x.start(t)
	return x
}

// printing starts a container with a task whose output goes to these writers.
func (s *suite) printing(t *testing.T, stdout, stderr io.Writer, task ...string) *trial {
	t.Helper()
	x := s.create(t, s.spec(task...))
	if err := x.Attach(t.Context(), stdout, stderr); err != nil {
		t.Fatalf("Attach: %v", err)
	}
	x.start(t)
	return x
}

// run runs a container to its end. The end of the subtest removes it.
func (s *suite) run(t *testing.T, spec bench.Spec) (*trial, bench.Exit) {
	t.Helper()
	x := s.started(t, spec)
	return x, x.wait(t)
}

// output runs a container that must succeed, and returns its standard output.
func (s *suite) output(t *testing.T, spec bench.Spec) string {
	t.Helper()
	x, exit := s.run(t, spec)
	if exit != (bench.Exit{}) {
		t.Fatalf("%q: %v, want success (stderr: %.300q)", spec.Argv, exit, x.stderr.String())
	}
	return x.stdout.String()
}

// facts runs the agent's facts in a container.
func (s *suite) facts(t *testing.T, spec bench.Spec) agent.Facts {
	t.Helper()
	spec.Argv = []string{agent.Path, "facts"}
	var f agent.Facts
	noError(t, json.Unmarshal([]byte(s.output(t, spec)), &f))
	return f
}

// plainFacts are the facts inside a container of which nothing is asked. One container stands for all.
func (s *suite) plainFacts(t *testing.T) agent.Facts {
	t.Helper()
	if s.plain == nil {
		f := s.facts(t, s.spec())
		s.plain = &f
	}
	return *s.plain
}

// ready starts a container and waits until it has printed text.
func (s *suite) ready(t *testing.T, spec bench.Spec, text string) *trial {
	t.Helper()
	x := s.started(t, spec)
	if err := x.stdout.await(t.Context(), text); err != nil {
		t.Fatalf("%q has not printed %q: %v (stdout: %.300q, stderr: %.300q)",
			spec.Argv, text, err, x.stdout.String(), x.stderr.String())
	}
	return x
}

// refused reports whether the engine lacks the feature that spec needs. If so, the engine must
// refuse, and leave nothing.
func (s *suite) refused(t *testing.T, f Feature, spec bench.Spec) bool {
	t.Helper()
	if !s.unsupported(f) {
		return false
	}
	s.refuses(t, spec)
	return true
}

func (s *suite) refuses(t *testing.T, spec bench.Spec) {
	t.Helper()
	// Prepare may be the first to refuse, but Create must in any case.
	_ = s.engine.Prepare(t.Context(), spec)
	c, err := s.engine.Create(t.Context(), spec)
	if err == nil {
		x := s.adopt(t, c, spec, "")
		t.Fatalf("Create made %s, want an error that wraps bench.ErrUnsupported", x.ID())
	}
	if !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("Create: %v, want an error that wraps bench.ErrUnsupported", err)
	}
}

// A buffer collects output. It may be read while it is written to.
type buffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	grew chan struct{}
}

func newBuffer() *buffer { return &buffer{grew: make(chan struct{}, 1)} }

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.grew <- struct{}{}:
	default:
	}
	return b.b.Write(p)
}

// String returns what was written so far.
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// await returns when the buffer contains text.
func (b *buffer) await(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	for {
		b.mu.Lock()
		found := bytes.Contains(b.b.Bytes(), []byte(text))
		b.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-b.grew:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
