package kubernetes

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/fleet/kube/kubetest"
)

// A runtime is a node's, which has every image, and every container that it is asked for.
type runtime struct{}

func (runtime) Name() string { return "kubernetes" }
func (runtime) Probe(context.Context) (bench.EngineInfo, error) {
	return bench.EngineInfo{Version: "2.1.4~ds1", Facts: []bench.Label{{Key: "server", Value: "containerd"}}}, nil
}
func (runtime) Prepare(context.Context, bench.Spec) error { return nil }
func (runtime) Create(context.Context, bench.Spec) (bench.Container, error) {
	return nil, errors.New("not by the runtime")
}
func (runtime) Close(context.Context) error { return nil }
func (runtime) Stored(context.Context, string) (name, id string, _ error) {
	return "tare.local/x", "sha256:x", nil
}

func (runtime) Adopt(_ context.Context, id string, _ bench.Spec, _ string) (bench.Container, error) {
	return adopted(id), nil
}
func (runtime) Daemons(context.Context) ([]int, error)               { return []int{1}, nil }
func (runtime) Pid(context.Context, bench.Container) (int, error)    { return 1, nil }
func (runtime) RemoveLeftover(context.Context, bench.Leftover) error { return nil }
func (runtime) Address(context.Context, bench.Container, bench.Port) (a netip.AddrPort, _ error) {
	return a, nil
}

func (runtime) Path(context.Context, bench.Container, bench.Port) ([]string, error) { return nil, nil }

func (runtime) Leftovers(context.Context, func(string) bool) ([]bench.Leftover, error) {
	return nil, nil
}

type adopted string

func (a adopted) ID() string                                       { return string(a) }
func (adopted) Attach(context.Context, io.Writer, io.Writer) error { return nil }
func (adopted) Inspect(context.Context) (bench.Applied, error) {
	return bench.Applied{Network: "seen"}, nil
}
func (adopted) Start(context.Context) error              { return nil }
func (adopted) Wait(context.Context) (bench.Exit, error) { return bench.Exit{}, nil }
func (adopted) Remove(context.Context) error             { return nil }

// begin makes a cluster with a node that is this machine, and an engine for it.
func begin(t *testing.T, o kubetest.Options) (*kubetest.Server, *Engine) {
	t.Helper()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Skip(err)
	}
	s := kubetest.Start(t, o)
	n := kubetest.NewNode("here")
	n.Status.Info.Boot = strings.TrimSpace(string(boot))
	s.Put(n)
	e := New(Config{
		Name: "kubernetes", Run: "run", Dir: t.TempDir(), Kubeconfig: s.Kubeconfig(), Runtime: runtime{},
	})
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return s, e
}

// untilTold is a container that runs until its pod is to end.
func untilTold(p *kubetest.Process) kubetest.Ending {
	p.Running()
	<-p.Context().Done()
	return kubetest.Ending{Code: 143}
}

var spec = bench.Spec{Image: "x", Argv: []string{"/bin/x"}, Network: "host"}

// TestLife has a pod that waits for its start, runs, ends, and goes.
func TestLife(t *testing.T) {
	var began atomic.Bool
	s, e := begin(t, kubetest.Options{Run: func(p *kubetest.Process) kubetest.Ending {
		began.Store(true)
		p.Running()
		return kubetest.Ending{Code: 3}
	}})
	if _, err := e.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := enginetest.Create(t, e, spec)
	a, err := c.Inspect(t.Context())
	if err = errors.Join(err, bench.Attest(spec, a)); err != nil || a.Image != "sha256:x" {
		t.Errorf("a pod that does not run: %+v, %v", a, err)
	}
	if began.Load() || s.Objects("pods") != 1 {
		t.Errorf("%d pods, begun: %v; want one that waits", s.Objects("pods"), began.Load())
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit, err := c.Wait(t.Context()); err != nil || exit.Code != 3 {
		t.Errorf("Wait = %+v, %v; want 3", exit, err)
	}
	if a, err := c.Inspect(t.Context()); err != nil || a.Network != "seen" {
		t.Errorf("a pod that has run: %+v, %v; want what the runtime says", a, err)
	}
	for range 2 { // the second does nothing
		if err := c.Remove(t.Context()); err != nil || s.Objects("pods") != 0 {
			t.Errorf("Remove = %v, %d pods are left", err, s.Objects("pods"))
		}
	}
}

// TestTimedOnce has an API server that refuses a call, or loses its answer: that is an error, no time, and leaves
// nothing behind.
func TestTimedOnce(t *testing.T) {
	for name, f := range map[string]*kubetest.Fault{
		"busy":                {Code: http.StatusTooManyRequests, RetryAfter: 1},
		"broken":              {Code: http.StatusInternalServerError},
		"no answer":           {},
		"done, and no answer": {Late: true},
	} {
		for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodDelete} {
			t.Run(name+" "+method, func(t *testing.T) {
				var armed atomic.Bool
				var met atomic.Int64
				s, e := begin(t, kubetest.Options{Run: untilTold, Fault: func(r *http.Request) *kubetest.Fault {
					if r.Method != method || !armed.Load() || strings.HasSuffix(r.URL.Path, "reviews") {
						return nil
					}
					if met.Add(1) > 1 { // what cleans up is let through
						return nil
					}
					return f
				}})
				if err := e.Prepare(t.Context(), spec); err != nil {
					t.Fatal(err)
				}
				armed.Store(true)
				c, err := e.Create(t.Context(), spec)
				if method == http.MethodPost {
					if err == nil || met.Load() != 1 || s.Objects("pods") != 0 {
						t.Errorf("Create = %v after %d calls, %d pods are left", err, met.Load(), s.Objects("pods"))
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				err = c.Start(t.Context())
				if (method == http.MethodPatch) != (err != nil) {
					t.Errorf("Start = %v", err)
				}
				err = c.Remove(t.Context())
				if (method == http.MethodDelete) != (err != nil) {
					t.Errorf("Remove = %v", err)
				}
				if err := c.Remove(t.Context()); err != nil || s.Objects("pods") != 0 {
					t.Errorf("Remove once more = %v, %d pods are left", err, s.Objects("pods"))
				}
			})
		}
	}
}

// TestShortLife has a pod that is gone before a slow API server has listed the first pods.
func TestShortLife(t *testing.T) {
	s, e := begin(t, kubetest.Options{Run: untilTold, Fault: func(r *http.Request) *kubetest.Fault {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/pods") {
			time.Sleep(100 * time.Millisecond)
		}
		return nil
	}})
	c := enginetest.Create(t, e, spec)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if err := c.Remove(ctx); err != nil || s.Objects("pods") != 0 {
		t.Errorf("Remove = %v, %d pods are left", err, s.Objects("pods"))
	}
}

// TestDeaf has a connection that breaks while a container runs, before or after its end is awaited: when it ended is not
// known.
func TestDeaf(t *testing.T) {
	for name, late := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			end := make(chan struct{})
			s, e := begin(t, kubetest.Options{Run: func(p *kubetest.Process) kubetest.Ending {
				p.Running()
				<-end
				return kubetest.Ending{}
			}})
			c := enginetest.Create(t, e, spec)
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error)
			wait := func() {
				_, err := c.Wait(t.Context())
				ended <- err
			}
			heard := c.(*container).cluster.pods
			if !late {
				go wait()
				time.Sleep(20 * time.Millisecond) // it waits
			}
			s.Down()()
			for late && heard.now() != inGap {
				time.Sleep(time.Millisecond)
			}
			if late {
				go wait()
				time.Sleep(20 * time.Millisecond) // it waits, before there is a connection again
			}
			close(end)
			if err := <-ended; !errors.Is(err, errGap) {
				t.Errorf("Wait = %v, want errGap", err)
			}
			if err := c.Remove(t.Context()); err != nil || s.Objects("pods") != 0 {
				t.Errorf("Remove = %v, %d pods are left", err, s.Objects("pods"))
			}
		})
	}
}

// TestForeignRemoval has a pod that somebody else removes.
func TestForeignRemoval(t *testing.T) {
	s, e := begin(t, kubetest.Options{Run: untilTold})
	c := enginetest.Create(t, e, spec)
	pod := kube.Pod{Meta: kube.Meta{Name: c.(*container).pod.Name}}
	if err := s.Client().Delete(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err == nil {
		t.Error("a pod that is gone has started")
	}
	if err := c.Remove(t.Context()); !errors.Is(err, kube.ErrNotFound) {
		t.Errorf("the first Remove = %v, want that there was nothing to remove", err)
	}
	if err := c.Remove(t.Context()); err != nil {
		t.Errorf("the second Remove = %v", err)
	}
}

// TestForeignRuntime has a socket that is not the node's runtime.
func TestForeignRuntime(t *testing.T) {
	s, e := begin(t, kubetest.Options{})
	n := kubetest.NewNode("here")
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // begin has read it
	n.Status.Info.Boot, n.Status.Info.Runtime = strings.TrimSpace(string(boot)), "containerd://2.1.3"
	s.Put(n)
	if _, err := e.Probe(t.Context()); !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "endpoint") {
		t.Errorf("Probe = %v", err)
	}
}

// TestRights has a client that lacks one.
func TestRights(t *testing.T) {
	_, e := begin(t, kubetest.Options{Forbid: func(a kube.Access) string {
		if a.Resource == "pods" && a.Verb == "patch" {
			return "no rule allows it"
		}
		return ""
	}})
	_, err := e.Probe(t.Context())
	const want = "you may not patch pods in namespace default (no rule allows it)"
	if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), want) {
		t.Errorf("Probe = %v", err)
	}
}

// TestLeftovers has a pod of a dead run, to which a webhook has added a container, and one of somebody else.
func TestLeftovers(t *testing.T) {
	s, e := begin(t, kubetest.Options{
		Run: untilTold,
		Admit: func(kind string, o map[string]any) error {
			if spec, ok := o["spec"].(map[string]any); ok && kind == "Pod" {
				spec["containers"] = append(spec["containers"].([]any), map[string]any{"name": "proxy", "image": "p"})
			}
			return nil
		},
	})
	c := enginetest.Create(t, e, spec)
	if _, err := c.Inspect(t.Context()); !errors.Is(err, bench.ErrMismatch) {
		t.Errorf("Inspect = %v, want ErrMismatch", err)
	}
	theirs := &kube.Pod{Meta: kube.Meta{Name: "theirs", Labels: map[string]string{owned.Label: "run"}}}
	theirs.Spec = kube.PodSpec{Containers: []kube.Container{{Name: "x", Image: "x"}}, Gates: []kube.Gate{{Name: gate}}}
	if err := s.Client().Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	left, err := e.Leftovers(t.Context(), func(run string) bool { return run == "run" })
	if err != nil || len(left) != 1 || left[0].ID != c.(*container).pod.Name {
		t.Fatalf("Leftovers = %+v, %v", left, err)
	}
	if err := e.RemoveLeftover(t.Context(), left[0]); err != nil || s.Objects("pods") != 1 {
		t.Errorf("RemoveLeftover = %v, %d pods, want that of somebody else", err, s.Objects("pods"))
	}
	_ = c.Remove(t.Context()) // it is gone: the next call cleans up
	left[0].ID = "theirs"
	if err := e.RemoveLeftover(t.Context(), left[0]); err == nil || s.Objects("pods") != 1 {
		t.Errorf("somebody else's: RemoveLeftover = %v, %d pods", err, s.Objects("pods"))
	}
}
