package cri_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tare-bench/tare/internal/bench"
	driver "github.com/tare-bench/tare/internal/engine/cri"
)

func own() bench.Spec { return bench.Spec{Image: "own"} }

func TestProbeOfAnAbsentServer(t *testing.T) {
	dead := newSocket(t)
	l, err := net.Listen("unix", dead)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, socket := range map[string]string{"no socket": newSocket(t), "nobody listens": dead} {
		t.Run(name, func(t *testing.T) {
			_, err := open(t, socket).Probe(t.Context())
			if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), "systemctl start containerd") {
				t.Errorf("Probe = %v, want bench.ErrUnsupported and how to start it", err)
			}
		})
	}
}

// containerd without its CRI plugin answers at the same socket.
func TestProbeOfAServerWithoutCRI(t *testing.T) {
	socket := newSocket(t)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	go func() { _ = s.Serve(l) }() // ends with Stop
	t.Cleanup(s.Stop)
	_, err = open(t, socket).Probe(t.Context())
	if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), "disabled_plugins") {
		t.Errorf("Probe = %v, want bench.ErrUnsupported and how to enable it", err)
	}
}

func TestProbeErrorsThatSayNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, file+"/s").Probe(t.Context()); err == nil || errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("Probe = %v, want an error that is not conclusive", err)
	}
	e := driver.New(driver.Config{Name: "cri", Run: "run-1", Endpoint: "tcp://localhost:1"})
	if _, err := e.Probe(t.Context()); err == nil || errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("Probe = %v, want an error that is not conclusive", err)
	}
}

func TestBadAnswers(t *testing.T) {
	probe := func(ctx context.Context, e *driver.Engine) error { _, err := e.Probe(ctx); return err }
	prepare := func(ctx context.Context, e *driver.Engine) error { return e.Prepare(ctx, own()) }
	create := func(ctx context.Context, e *driver.Engine) error { _, err := e.Create(ctx, own()); return err }
	wait := func(ctx context.Context, e *driver.Engine) error {
		c, err := e.Create(ctx, own())
		if err == nil {
			_, err = c.Wait(ctx)
		}
		return err
	}
	inspect := func(ctx context.Context, e *driver.Engine) error {
		c, err := e.Create(ctx, own())
		if err == nil {
			_, err = c.Inspect(ctx)
		}
		return err
	}
	pull := func(ctx context.Context, e *driver.Engine) error {
		return e.Pull(ctx, bench.Spec{Image: "127.0.0.1:1/" + bench.PullRepository("run-1", "cri") + ":1"})
	}
	for name, test := range map[string]struct {
		method string
		answer answer
		want   string // part of the error
		do     func(ctx context.Context, e *driver.Engine) error
	}{
		"pull: error":  {"PullImage", refuse(codes.Unknown, "connection refused"), "connection refused", pull},
		"probe: error": {"Version", refuse(codes.Internal, "disk on fire"), "disk on fire", probe},
		"probe: not ready": {
			"Status",
			say(&cri.StatusResponse{
				Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{{Type: "RuntimeReady", Message: "no disk"}}},
			}), "no disk", probe,
		},
		"probe: cgroups":           {"RuntimeConfig", refuse(codes.Internal, "no cgroups"), "no cgroups", probe},
		"prepare: image missing":   {"ImageStatus", say(&cri.ImageStatusResponse{}), "crictl pull own", prepare},
		"prepare: image not found": {"ImageStatus", refuse(codes.NotFound, "no"), "crictl pull own", prepare},
		"prepare: image error":     {"ImageStatus", refuse(codes.Unknown, "store locked"), "store locked", prepare},
		"prepare: first sandbox":   {"RunPodSandbox", refuse(codes.Unknown, "no pause"), "no pause", prepare},
		"create: error":            {"RunPodSandbox", refuse(codes.Unknown, "name in use"), "name in use", create},
		"create: no ID":            {"RunPodSandbox", say(&cri.RunPodSandboxResponse{}), "no ID", create},
		"create: no container ID":  {"CreateContainer", say(&cri.CreateContainerResponse{}), "no ID", create},
		"create: long error":       {"CreateContainer", refuse(codes.Unknown, strings.Repeat("x", 1<<20)), "xxx", create},
		"wait: error":              {"ContainerStatus", refuse(codes.Unknown, "gone mad"), "gone mad", wait},
		"wait: lost": {
			"ContainerStatus",
			say(&cri.ContainerStatusResponse{Status: &cri.ContainerStatus{State: cri.ContainerState_CONTAINER_UNKNOWN}}),
			"no longer knows", wait,
		},
		"wait: never ran": {
			"ContainerStatus",
			say(&cri.ContainerStatusResponse{
				Status: &cri.ContainerStatus{State: cri.ContainerState_CONTAINER_EXITED, Reason: "StartError"},
			}), "StartError", wait,
		},
		"inspect: nothing": {"ContainerStatus", say(&cri.ContainerStatusResponse{}), "lacks", inspect},
		"inspect: garbage": {
			"ContainerStatus",
			say(&cri.ContainerStatusResponse{Status: &cri.ContainerStatus{}, Info: map[string]string{"info": "<html>"}}),
			"invalid", inspect,
		},
		"inspect: no OCI": {
			"ContainerStatus",
			say(&cri.ContainerStatusResponse{Status: &cri.ContainerStatus{}, Info: map[string]string{"info": "{}"}}), "lacks",
			inspect,
		},
		"inspect: no sandbox": {"PodSandboxStatus", say(&cri.PodSandboxStatusResponse{}), "lacks", inspect},
		"leftovers: error": {
			"ListPodSandbox", refuse(codes.Unknown, "store locked"), "list sandboxes",
			func(ctx context.Context, e *driver.Engine) error {
				_, err := e.Leftovers(ctx, func(string) bool { return true })
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.do(t.Context(), with(t, newFake(map[string]answer{test.method: test.answer})))
			if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, bench.ErrUnsupported) {
				t.Errorf("error = %.3000v, want one with %q that is not conclusive", err, test.want)
			}
			if n := len(fmt.Sprint(err)); n > 2000 {
				t.Errorf("the error has %d bytes", n)
			}
		})
	}
}

// Whatever hangs, the context ends it.
func TestHangs(t *testing.T) {
	for method, do := range map[string]func(ctx context.Context, e *driver.Engine, c bench.Container) error{
		"RunPodSandbox": func(ctx context.Context, e *driver.Engine, _ bench.Container) error {
			_, err := e.Create(ctx, own())
			return err
		},
		"CreateContainer": func(ctx context.Context, e *driver.Engine, _ bench.Container) error {
			_, err := e.Create(ctx, own())
			return err
		},
		"StartContainer": func(ctx context.Context, _ *driver.Engine, c bench.Container) error { return c.Start(ctx) },
		"ContainerStatus": func(ctx context.Context, _ *driver.Engine, c bench.Container) error {
			_, err := c.Wait(ctx)
			return err
		},
		"PodSandboxStatus": func(ctx context.Context, _ *driver.Engine, c bench.Container) error {
			_, err := c.Inspect(ctx)
			return err
		},
		"StopContainer": func(ctx context.Context, e *driver.Engine, c bench.Container) error {
			return e.Stop(ctx, c, time.Second)
		},
		"ExecSync": func(ctx context.Context, e *driver.Engine, c bench.Container) error {
			_, err := e.Exec(ctx, c, []string{"/x"}, nil, nil)
			return err
		},
		"RemovePodSandbox": func(ctx context.Context, _ *driver.Engine, c bench.Container) error { return c.Remove(ctx) },
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			f := newFake(nil)
			e := with(t, f)
			c, err := e.Create(t.Context(), own())
			if err != nil {
				t.Fatal(err)
			}
			f.answer(method, hang)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := do(ctx, e, c); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error = %v, want context.DeadlineExceeded", err)
			}
		})
	}
}

// A server that takes connections and says nothing cannot hold up a Probe.
func TestProbeOfAMuteServer(t *testing.T) {
	socket := newSocket(t)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // the test is over
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := open(t, socket).Probe(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Probe = %v, want context.DeadlineExceeded", err)
	}
}

// What the server made after Create's context had ended is removed.
func TestCreateThatIsLate(t *testing.T) {
	for method, answer := range map[string]any{
		"RunPodSandbox":   &cri.RunPodSandboxResponse{PodSandboxId: "late"},
		"CreateContainer": &cri.CreateContainerResponse{ContainerId: "late"},
	} {
		t.Run(method, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var name string
			f := newFake(nil)
			f.answer(method, func(_ context.Context, request any) (any, error) {
				if r, ok := request.(*cri.RunPodSandboxRequest); ok {
					name = r.Config.Labels["tare.name"]
				}
				cancel()
				return answer, nil
			})
			f.answer("ListPodSandbox", func(context.Context, any) (any, error) {
				mine := &cri.PodSandbox{Id: "late", Labels: map[string]string{"tare.name": name}}
				return &cri.ListPodSandboxResponse{Items: []*cri.PodSandbox{{Id: "another's"}, mine}}, nil
			})
			f.answer("RemovePodSandbox", func(_ context.Context, request any) (any, error) {
				if id := request.(*cri.RemovePodSandboxRequest).PodSandboxId; id == "another's" {
					t.Errorf("sandbox %s was removed", id)
				}
				return &cri.RemovePodSandboxResponse{}, nil
			})
			if _, err := with(t, f).Create(ctx, own()); !errors.Is(err, context.Canceled) {
				t.Errorf("Create = %v, want context.Canceled", err)
			}
			if !f.called("RemovePodSandbox") {
				t.Errorf("the sandbox was not removed; calls: %q", f.calls)
			}
		})
	}
}

// A server that was restarted answers the same engine.
func TestRestartedServer(t *testing.T) {
	socket := newSocket(t)
	stop := newFake(nil).listen(t, socket)
	e := open(t, socket)
	if _, err := e.Create(t.Context(), own()); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := e.Create(t.Context(), own()); err == nil {
		t.Error("Create succeeds on a server that was stopped")
	}
	newFake(nil).listen(t, socket)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, err := e.Create(t.Context(), own())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("Create on a server that was restarted: %v", err)
		}
	}
}

// What is not this run's is not removed, whoever lists it.
func TestLeftoversOfOthers(t *testing.T) {
	label := func(run string) map[string]string { return map[string]string{"tare.run": run, "tare.name": "a"} }
	f := newFake(map[string]answer{
		"ListPodSandbox": say(&cri.ListPodSandboxResponse{Items: []*cri.PodSandbox{
			{Id: "p1", Labels: label("dead")},
			{Id: "p2", Labels: label("../x")},
			{Id: "p3", Labels: label("alive")},
			{Id: "p4"},
			{Id: "the kubelet's", Labels: map[string]string{"tare.run": "dead"}},
		}}),
		"PodSandboxStatus": say(&cri.PodSandboxStatusResponse{Status: &cri.PodSandboxStatus{Labels: label("another")}}),
	})
	e := with(t, f)
	left, err := e.Leftovers(t.Context(), func(run string) bool { return run == "dead" || run == "../x" })
	if err != nil || len(left) != 1 || left[0].ID != "p1" {
		t.Fatalf("Leftovers = %v, %v; want p1 alone", left, err)
	}
	if err := e.RemoveLeftover(t.Context(), left[0]); err == nil {
		t.Error("a sandbox that another run has is removed")
	}
	if f.called("RemovePodSandbox") {
		t.Errorf("calls: %q", f.calls)
	}
}

// A name can be another image by the time that a container is made of it.
func TestAnotherImage(t *testing.T) {
	another := exited(0)
	another.Status.ImageRef = "sha256:0bad"
	c, err := with(t, newFake(map[string]answer{"ContainerStatus": say(another)})).Create(t.Context(), own())
	if err != nil {
		t.Fatal(err)
	}
	if a, err := c.Inspect(t.Context()); !errors.Is(err, bench.ErrMismatch) {
		t.Errorf("Inspect = %+v, %v; want bench.ErrMismatch", a, err)
	}
}

// A containerd that does not tell what it calls the image of a pod's first process says
// so where it cannot fetch it: then tare makes one of that name, if there is none.
func TestPauseImageThatOnlyTheErrorNames(t *testing.T) {
	const name = "registry.k8s.io/pause:3.10.2"
	for what, there := range map[string]bool{"there by now": true, "missing": false} {
		t.Run(what, func(t *testing.T) {
			var asked atomic.Bool
			f := newFake(map[string]answer{
				"Version": say(&cri.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "2.4.2", RuntimeApiVersion: "v1"}),
				"Status": say(&cri.StatusResponse{
					Info: map[string]string{"config": `{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{}}}}`},
				}),
				"RunPodSandbox": func(context.Context, any) (any, error) {
					if asked.Load() {
						return &cri.RunPodSandboxResponse{PodSandboxId: "p1"}, nil
					}
					return nil, status.Errorf(codes.Unknown,
						`failed to get sandbox image %[1]q: failed to pull image %[1]q: failed to resolve image: no such host`, name)
				},
				"ImageStatus": func(_ context.Context, request any) (any, error) {
					if request.(*cri.ImageStatusRequest).Image.Image == name {
						asked.Store(true)
						if !there {
							return &cri.ImageStatusResponse{}, nil
						}
					}
					return &cri.ImageStatusResponse{Image: &cri.Image{Id: "sha256:00ff"}}, nil
				},
			})
			err := with(t, f).Prepare(t.Context(), own())
			if there && err != nil || !there && !strings.Contains(fmt.Sprint(err), "load image "+name) {
				t.Errorf("Prepare = %v, want an error only where the image is missing and this server takes none", err)
			}
			if !asked.Load() {
				t.Error("nobody looked for the image")
			}
		})
	}
}

// On a server with pods of others, tare puts no image of its own under the name of the
// image that every pod begins with.
func TestPauseImageOfOthers(t *testing.T) {
	const text = `failed to get sandbox image "pause:1": failed to resolve image: no such host`
	f := newFake(map[string]answer{
		"Version": say(
			&cri.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "2.4.2", RuntimeApiVersion: "v1"},
		),
		"ListPodSandbox": say(
			&cri.ListPodSandboxResponse{Items: []*cri.PodSandbox{{Id: "p7", Labels: map[string]string{"app": "shop"}}}},
		),
		"RunPodSandbox": refuse(codes.Unknown, text),
		"ImageStatus": func(_ context.Context, request any) (any, error) {
			if request.(*cri.ImageStatusRequest).Image.Image == "pause:1" {
				return &cri.ImageStatusResponse{}, nil
			}
			return &cri.ImageStatusResponse{Image: &cri.Image{Id: "sha256:00ff"}}, nil
		},
	})
	if err := with(t, f).Prepare(t.Context(), own()); err == nil || !strings.Contains(err.Error(), "no such host") ||
		strings.Contains(err.Error(), "load image") {
		t.Errorf("Prepare = %v, want the server's own error, and no try to load an image", err)
	}
}

// A removal of which one call fails has failed, though the pod is gone; the next one
// cleans up.
func TestRemoveThatStumbles(t *testing.T) {
	f := newFake(map[string]answer{"StopContainer": refuse(codes.Unknown, "shim is stuck")})
	e := with(t, f)
	if err := e.Prepare(t.Context(), own()); err == nil {
		t.Fatal("a rehearsal whose container cannot be stopped is fine")
	}
	f.answer("StopContainer", say(&cri.StopContainerResponse{}))
	if err := e.Prepare(t.Context(), own()); err != nil {
		t.Fatal(err)
	}
	c, err := e.Create(t.Context(), own())
	if err != nil {
		t.Fatal(err)
	}
	f.answer("StopContainer", refuse(codes.Unknown, "shim is stuck"))
	if err := c.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "shim is stuck") {
		t.Errorf("Remove = %v, want the call that failed", err)
	}
	if err := c.Remove(t.Context()); err != nil {
		t.Errorf("Remove, again: %v; want none: nothing is left", err)
	}
}

// Containerd opens an image by a name that another run may have just removed: the container is made a moment later.
// What is missing for good is told at once.
func TestNameOfTheImageGoesMeanwhile(t *testing.T) {
	const gone = `failed to get image from containerd "sha256:00ff": image "tare.local/run-0/cri/agent:latest": not found`
	for name, test := range map[string]struct {
		text  string // of the error
		fails int32  // how often it comes
		calls int32  // that are made
	}{
		"another run's name": {gone, 2, 3},
		"another object":     {`failed to find sandbox id "p1": not found`, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			f := newFake(nil)
			f.answer("CreateContainer", func(context.Context, any) (any, error) {
				if calls.Add(1) <= test.fails {
					return nil, status.Error(codes.NotFound, test.text)
				}
				return &cri.CreateContainerResponse{ContainerId: "c1"}, nil
			})
			_, err := with(t, f).Create(t.Context(), own())
			if failed := test.calls <= test.fails; (err != nil) != failed {
				t.Errorf("Create = %v, want an error: %v", err, failed)
			}
			if n := calls.Load(); n != test.calls {
				t.Errorf("%d calls, want %d", n, test.calls)
			}
		})
	}
}

// A name that stays away is told, and does not hold whoever has given up.
func TestNameOfTheImageStaysAway(t *testing.T) {
	t.Parallel() // it waits
	const gone = `failed to get image from containerd "sha256:00ff": image "x": not found`
	f := newFake(map[string]answer{"CreateContainer": refuse(codes.NotFound, gone)})
	if _, err := with(t, f).Create(t.Context(), own()); err == nil || !strings.Contains(err.Error(), "sha256:00ff") {
		t.Errorf("Create = %v, want the server's error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int32
	f.answer("CreateContainer", func(context.Context, any) (any, error) {
		calls.Add(1)
		cancel()
		return nil, status.Error(codes.NotFound, gone)
	})
	if _, err := with(t, f).Create(ctx, own()); !errors.Is(err, context.Canceled) || calls.Load() != 1 {
		t.Errorf("Create = %v after %d calls, want context.Canceled after one", err, calls.Load())
	}
}
