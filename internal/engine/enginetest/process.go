package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
)

// "Probe changes nothing on the host."
func probe(t *testing.T, s *suite) {
	before := files(t, s.env.Dir)
	info, err := s.engine.Probe(t.Context())
	if err != nil {
		t.Fatalf("Probe: %v", err)
	}
	if info.Name != s.engine.Name() || info.Driver == "" {
		t.Errorf("Probe = %+v, want the name %q and a driver", info, s.engine.Name())
	}
	if diff := cmp.Diff(before, files(t, s.env.Dir)); diff != "" {
		t.Errorf("Probe changed the run's directory (-before +after):\n%s", diff)
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	noError(t, err)
	return names
}

// "Calling it again is harmless." Create works after either call.
func prepareTwice(t *testing.T, s *suite) {
	spec := s.spec("exit", "0")
	for range 2 {
		noError(t, s.engine.Prepare(t.Context(), spec))
		s.output(t, spec)
	}
}

// "A non-zero status is an Exit, not an error."
func exitStatus(t *testing.T, s *suite) {
	codes := []int{1, 127, 255} // which runtimes use themselves; 0 and 3 come below, too
	if !testing.Short() {
		codes = append(codes, 0, 3)
	}
	for _, code := range codes {
		_, exit := s.run(t, s.spec("exit", fmt.Sprint(code)))
		if want := (bench.Exit{Code: code}); exit != want {
			t.Errorf("exit %d: %+v, want %+v", code, exit, want)
		}
	}
}

// "A program that cannot be executed is an error here or … of Wait", or of
// Create where the engine looks earlier; never a success, nor a status.
func programNotFound(t *testing.T, s *suite) {
	x := s.missingProgram(t)
	if x == nil {
		return
	}
	if err := x.Start(t.Context()); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if exit, err := x.Wait(ctx); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Create and Start succeed, Wait = %v, %v; want an error", exit, err)
	}
}

// missingProgram returns a container whose program does not exist, or nil if Prepare or Create already
// failed for that reason.
func (s *suite) missingProgram(t *testing.T) *trial {
	t.Helper()
	spec := s.spec()
	spec.Argv = []string{"/no/such/program"}
	spec, token := s.withToken(spec)
	if err := s.engine.Prepare(t.Context(), spec); err != nil {
		return nil
	}
	c, err := s.engine.Create(t.Context(), spec)
	if err != nil {
		return nil
	}
	return s.adopt(t, c, spec, token)
}

// "128+Signal where a signal ended it."
func deathBySignal(t *testing.T, s *suite) {
	x := s.ready(t, s.spec("hold"), "ready\n")
	noError(t, syscall.Kill(x.pid(t), syscall.SIGKILL))
	exit := x.wait(t)
	if exit.Code != 137 || exit.OOM || exit.Signal != 0 && exit.Signal != 9 {
		t.Errorf("after SIGKILL: %+v, want status 137, and signal 9 where the engine can tell", exit)
	}
}

// "Attach sends what the container prints to stdout and stderr."
func outputApart(t *testing.T, s *suite) {
	for _, test := range []struct {
		task           []string
		stdout, stderr string
	}{
		{[]string{"echo", "to", "stdout"}, "to stdout\n", ""},
		{[]string{"echo", "-2", "to", "stderr"}, "", "to stderr\n"},
	} {
		x, exit := s.run(t, s.spec(test.task...))
		if exit.Code != 0 || x.stdout.String() != test.stdout || x.stderr.String() != test.stderr {
			t.Errorf("%q: %v, stdout %q, stderr %q; want %q and %q",
				test.task, exit, x.stdout.String(), x.stderr.String(), test.stdout, test.stderr)
		}
	}

	// "Either of which may be nil to discard it."
	stderr := newBuffer()
	s.printing(t, nil, stderr, "echo", "-2", "text").wait(t)
	if got := stderr.String(); got != "text\n" {
		t.Errorf("stderr = %q, want %q", got, "text\n")
	}
}

// "Everything printed has reached them by then."
func outputComplete(t *testing.T, s *suite) {
	const size = 3_000_000 // more than any pipe holds
	times := 3
	if testing.Short() {
		times = 1
	}
	for range times {
		if got := len(s.output(t, s.spec("print", fmt.Sprint(size)))); !s.arrived(got, size) {
			t.Errorf("stdout has %d bytes when Wait has returned, want %d", got, size)
		}
	}
}

// arrived reports whether got bytes are all output of a container that printed size, or what an
// engine that can lose the end of it may leave.
func (s *suite) arrived(got, size int) bool {
	return got == size || s.unsupported(CompleteOutput) && 0 < got && got < size
}

// "Where both are the same writer, it is called by one goroutine at a time."
func outputTogether(t *testing.T, s *suite) {
	const size = 200_000
	var both bytes.Buffer // which two at once would spoil
	s.printing(t, &both, &both, "print", fmt.Sprint(size), "both").wait(t)
	if got := both.Len(); !s.arrived(got, 2*size) {
		t.Errorf("of both streams together %d bytes have come, want %d", got, 2*size)
	}
}

// "Without it, output is discarded."
func outputDiscarded(t *testing.T, s *suite) {
	x := s.create(t, s.spec("print", "3000000"))
	x.start(t)
	if exit := x.wait(t); exit.Code != 0 {
		t.Errorf("printing without Attach: %v, want success", exit)
	}
}

// Output without end takes no memory, and does not keep a container alive.
func outputWithoutEnd(t *testing.T, s *suite) {
	const enough = 32 << 20
	w := &countWriter{limit: enough, reached: make(chan struct{})}
	before := heap()
	x := s.printing(t, w, nil, "spew")
	select {
	case <-w.reached:
	case <-t.Context().Done():
	}
	if grown := int64(heap()) - int64(before); grown > enough/2 {
		t.Errorf("the heap grew by %d bytes while %d bytes were printed", grown, enough)
	}
	s.remove(t, x)
}

// heap returns how many bytes are in use after a collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A countWriter discards, and signals when limit bytes have come.
type countWriter struct {
	n, limit int64
	reached  chan struct{}
}

func (w *countWriter) Write(p []byte) (int, error) {
	if w.n < w.limit && w.n+int64(len(p)) >= w.limit {
		close(w.reached)
	}
	w.n += int64(len(p))
	return len(p), nil
}

// "A writer's error stops the copying, not the container."
func outputFailing(t *testing.T, s *suite) {
	var w failingWriter
	if exit := s.printing(t, &w, nil, "print", "3000000").wait(t); exit.Code != 0 {
		t.Errorf("printing to a writer that fails: %v, want success", exit)
	}
	if n := w.calls.Load(); n != 1 {
		t.Errorf("the writer was called %d times, want once: its first call failed", n)
	}
}

type failingWriter struct{ calls atomic.Int32 }

func (w *failingWriter) Write([]byte) (int, error) {
	w.calls.Add(1)
	return 0, errors.New("no space left")
}

// Arguments arrive as they are: no shell, no word is lost.
func arguments(t *testing.T, s *suite) {
	args := []string{"", "a b", "$HOME", "*", `"'\`, "--", "%s", "ü☃", "two\nlines", "#", "a=b", "${x}", ""}
	spec := s.spec(append([]string{"echo"}, args...)...)
	if got, want := s.output(t, spec), strings.Join(args, " ")+"\n"; got != want {
		t.Errorf("stdout = %q, want %q", got, want)
	}
	if got, want := s.plainFacts(t).Argv, []string{agent.Path, "facts"}; !slices.Equal(got, want) {
		t.Errorf("argv = %q, want %q", got, want)
	}
}

// The environment is the image's and the Spec's, never that of tare.
func environment(t *testing.T, s *suite) {
	t.Setenv("TARE_TEST_OUTSIDE", "leaked")
	spec := s.spec("env")
	spec.Env = []string{"PLAIN=value", "EMPTY=", "ODD= a=b $HOME \"'"}
	got := strings.Split(strings.TrimSuffix(s.output(t, spec), "\n"), "\n")
	for _, want := range spec.Env {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not in the environment %q", want, got)
		}
	}
	for _, kv := range got {
		if strings.HasPrefix(kv, "TARE_TEST_OUTSIDE=") {
			t.Errorf("the container has %q of the environment of tare", kv)
		}
	}
}

func workingDirectory(t *testing.T, s *suite) {
	if got := s.plainFacts(t).Dir; got != "/" {
		t.Errorf("working directory by default = %q, want /", got)
	}
	spec := s.spec("facts")
	spec.Dir = "/proc" // the one directory that is everywhere
	if got := s.facts(t, spec).Dir; got != "/proc" {
		t.Errorf("working directory = %q, want /proc", got)
	}
}

// "Methods may be called concurrently for different containers."
func concurrent(t *testing.T, s *suite) {
	const count = 8
	trials := make([]*trial, count)
	for i := range trials {
		// Preparing and cleaning up use t, so they stay on this goroutine.
		spec, token := s.prepared(t, s.spec("echo", fmt.Sprint(i)))
		trials[i] = &trial{spec: spec, token: token, stdout: newBuffer(), stderr: newBuffer()}
	}
	var wg sync.WaitGroup
	for i, x := range trials {
		wg.Go(func() {
			if err := s.runTrial(t.Context(), x); err != nil {
				t.Errorf("container %d: %v", i, err)
			}
			if got, want := x.stdout.String(), fmt.Sprintln(i); got != want {
				t.Errorf("container %d printed %q, want %q", i, got, want)
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, x := range trials {
		if x.Container != nil && seen[x.ID()] {
			t.Errorf("two containers have the ID %s", x.ID())
		} else if x.Container != nil {
			seen[x.ID()] = true
		}
		s.requireGone(t, x)
	}
}

// runTrial is one trial from Create to Remove.
func (s *suite) runTrial(ctx context.Context, x *trial) (err error) {
	if x.Container, err = s.engine.Create(ctx, x.spec); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	defer func() { err = errors.Join(err, x.Remove(context.WithoutCancel(ctx))) }()
	if err := x.Attach(ctx, x.stdout, x.stderr); err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	if err := x.Start(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	exit, err := x.Wait(ctx)
	if err == nil && exit != (bench.Exit{}) {
		err = fmt.Errorf("wait: %v", exit)
	}
	return err
}
