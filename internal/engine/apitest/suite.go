package apitest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
)

// An Engine is a driver for such an API, with the capabilities that the tests use.
type Engine interface {
	bench.Engine
	bench.Cleaner
	bench.Execer
	bench.ProcessReporter
	bench.Pauser
	bench.Puller
	bench.Signaler
	bench.Stopper
}

// Open returns an engine of the run run-1, with the images of FakeLibrary. Its server knows the image
// own, creates the container c1, and otherwise gives the test's answers.
type Open[E Engine] func(t *testing.T, answers Answers) (E, *Server)

// A BadAnswer must make Do fail, with a short error that contains Want and does not wrap
// bench.ErrUnsupported.
type BadAnswer struct {
	Call   string
	Answer http.HandlerFunc
	Want   string
	Do     func(ctx context.Context, e Engine) error
}

// BadAnswers tests each of them.
func BadAnswers[E Engine](t *testing.T, open Open[E], all map[string]BadAnswer) {
	for name, bad := range all {
		t.Run(name, func(t *testing.T) {
			e, _ := open(t, Answers{bad.Call: bad.Answer})
			err := bad.Do(t.Context(), e)
			if err == nil || !strings.Contains(err.Error(), bad.Want) || errors.Is(err, bench.ErrUnsupported) ||
				len(err.Error()) > 1000 {
				t.Errorf("error = %.2000v, want a short one with %q that is not conclusive", err, bad.Want)
			}
		})
	}
}

// Probe probes an engine.
func Probe(ctx context.Context, e Engine) error { return failure(e.Probe(ctx)) }

// Prepare prepares for containers of an image.
func Prepare(image string) func(context.Context, Engine) error {
	return func(ctx context.Context, e Engine) error { return e.Prepare(ctx, bench.Spec{Image: image}) }
}

// Create creates a container.
func Create(ctx context.Context, e Engine) error {
	return failure(e.Create(ctx, bench.Spec{Image: "own"}))
}

// Pull pulls an image.
func Pull(ctx context.Context, e Engine) error {
	return e.Pull(ctx, bench.Spec{Image: "127.0.0.1:1/" + bench.PullRepository("run-1", e.Name()) + ":1"})
}

// Leftovers lists what every run left.
func Leftovers(ctx context.Context, e Engine) error {
	return failure(e.Leftovers(ctx, func(string) bool { return true }))
}

// failure drops the result of a call and returns its error.
func failure[T any](_ T, err error) error { return err }

// Created creates the container c1.
func Created(t *testing.T, e Engine) bench.Container {
	t.Helper()
	c, err := e.Create(t.Context(), bench.Spec{Image: "own"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A ContainerCall is an operation on a container, and a call that the operation makes.
type ContainerCall struct {
	Call string
	Do   func(ctx context.Context, e Engine, c bench.Container) error
}

// Hangs tests that the end of the context ends every hanging operation: those of all such engines,
// and more.
func Hangs[E Engine](t *testing.T, open Open[E], more map[string]ContainerCall) {
	for _, uses := range []map[string]ContainerCall{usual(), more} {
		for name, use := range uses {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e, s := open(t, nil)
				c := Created(t, e)
				s.Set(use.Call, Hang(t))
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				if err := use.Do(ctx, e, c); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error = %v, want context.DeadlineExceeded", err)
				}
			})
		}
	}
}

func usual() map[string]ContainerCall {
	const c1 = "/containers/c1"
	return map[string]ContainerCall{
		"create": {
			"POST /containers/create", func(ctx context.Context, e Engine, _ bench.Container) error { return Create(ctx, e) },
		},
		"inspect": {
			"GET " + c1 + "/json", func(ctx context.Context, _ Engine, c bench.Container) error {
				return failure(c.Inspect(ctx))
			},
		},
		"start": {
			"POST " + c1 + "/start", func(ctx context.Context, _ Engine, c bench.Container) error { return c.Start(ctx) },
		},
		"wait": {
			"POST " + c1 + "/wait", func(ctx context.Context, _ Engine, c bench.Container) error { return failure(c.Wait(ctx)) },
		},
		"remove": {"DELETE " + c1, func(ctx context.Context, _ Engine, c bench.Container) error { return c.Remove(ctx) }},
		"pause": {
			"POST " + c1 + "/pause", func(ctx context.Context, e Engine, c bench.Container) error { return e.Pause(ctx, c) },
		},
		"resume": {
			"POST " + c1 + "/unpause", func(ctx context.Context, e Engine, c bench.Container) error { return e.Resume(ctx, c) },
		},
		"signal": {
			"POST " + c1 + "/kill", func(ctx context.Context, e Engine, c bench.Container) error {
				return e.Signal(ctx, c, syscall.SIGTERM)
			},
		},
		"stop": {
			"POST " + c1 + "/stop", func(ctx context.Context, e Engine, c bench.Container) error {
				return e.Stop(ctx, c, time.Hour)
			},
		},
		"pid": {
			"GET " + c1 + "/json", func(ctx context.Context, e Engine, c bench.Container) error {
				return failure(e.Pid(ctx, c))
			},
		},
		"exec": {"POST " + c1 + "/exec", Exec},
	}
}

// Exec runs one more program in the container.
func Exec(ctx context.Context, e Engine, c bench.Container) error {
	return failure(e.Exec(ctx, c, []string{"/x"}, nil, nil))
}

// FakeLibrary returns a library with a fake agent.
func FakeLibrary(t *testing.T) *image.Library {
	t.Helper()
	return image.NewLibrary(t.TempDir(), image.WithAgent([]byte("not a program")))
}

// PresentImage tests that an image that the engine already has is neither sent again nor deleted at
// the end. name is the engine's name, and id converts a digest to the engine's ID.
func PresentImage[E Engine](t *testing.T, open Open[E], name string, id func(digest string) string) {
	img, err := FakeLibrary(t).Resolve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	at, tag := "/images/"+id(img.Digest()), "tare.local/run-1/"+name+"/agent:latest"
	for _, tags := range []string{`[]`, `["mine:1"]`, `["` + tag + `"]`} {
		var asked struct{ Image string }
		found := Reply(200, `{"Id":"`+id(img.Digest())+`","RepoTags":`+tags+`}`)
		e, s := open(t, Answers{
			"GET " + at + "/json":          found,
			"GET /images/" + tag + "/json": found,
			"POST " + at + "/tag":          Reply(201, ``),
			"POST /containers/create":      Decode(t, &asked, Reply(201, `{"Id":"c1"}`)),
		})
		if _, err := e.Create(t.Context(), bench.Spec{}); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if asked.Image != tag || s.HasCall("POST /images/load") || !s.HasCall("DELETE /images/"+tag) {
			t.Errorf("tags %s: container of %s, calls %q; want %s and nothing loaded", tags, asked.Image, s.Calls(), tag)
		}
	}
}
