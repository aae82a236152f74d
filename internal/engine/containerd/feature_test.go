package containerd_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	ctd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/containerd"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/image/registry/registrytest"
)

// open returns an engine on the machine's containerd.
func open(t *testing.T) (*containerd.Engine, enginetest.Env) {
	t.Helper()
	env := enginetest.NewEnv(t, imagetest.Library(t))
	e := containerd.New(containerd.Config{Name: "containerd", Run: env.Run, Dir: env.Dir, Images: env.Images})
	enginetest.Use(t, e)
	return e, env
}

// facts runs the agent's facts to their end, and attests the container.
func facts(t *testing.T, e bench.Engine, spec bench.Spec) (agent.Facts, bench.Applied) {
	t.Helper()
	spec.Argv = []string{agent.Path, "facts"}
	if err := e.Prepare(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	c, err := e.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	var stdout bytes.Buffer
	if err := c.Attach(t.Context(), &stdout, nil); err != nil {
		t.Fatal(err)
	}
	applied, err := c.Inspect(t.Context())
	if err := errors.Join(err, bench.Attest(spec, applied)); err != nil {
		t.Error(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit, err := c.Wait(t.Context()); err != nil || exit != (bench.Exit{}) {
		t.Fatalf("Wait = %v, %v", exit, err)
	}
	var f agent.Facts
	if err := json.Unmarshal(stdout.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	return f, applied
}

// The default is a seccomp filter, as in Docker and nerdctl.
func TestSeccompByDefault(t *testing.T) {
	e, _ := open(t)
	if f, _ := facts(t, e, bench.Spec{}); f.Seccomp != 2 {
		t.Errorf("seccomp mode %d inside, want 2, a filter", f.Seccomp)
	}
}

// A Spec may choose among the snapshotters and runtimes that are there.
func TestFactors(t *testing.T) {
	e, _ := open(t)
	_, applied := facts(t, e, bench.Spec{Snapshotter: "native"})
	if applied.Storage == "overlay" {
		t.Error("the root under snapshotter native is an overlay")
	}
	_, err := exec.LookPath("crun")
	enginetest.Require(t, "crun", err)
	if _, applied := facts(t, e, bench.Spec{Runtime: "crun"}); applied.Runtime != "crun" {
		t.Errorf("runtime = %q, want crun", applied.Runtime)
	}
}

// In gVisor the host sees a sandbox: its limits are the kernel's, the rest is
// containerd's word, and what it would not do is refused.
func TestSandbox(t *testing.T) {
	_, err := exec.LookPath("runsc")
	enginetest.Require(t, "runsc", err)
	e, _ := open(t)
	spec := bench.Spec{
		Runtime: "runsc", Limits: bench.Limits{Memory: 256 << 20, CPUs: 0.5},
		Mounts: []bench.Mount{{Type: "tmpfs", Target: "/mnt", Size: 1 << 20}},
	}
	f, applied := facts(t, e, spec)
	if applied.Runtime != "runsc" || applied.Limits.Memory != 256<<20 {
		t.Errorf("Inspect = %+v, want runsc and its limits", applied)
	}
	if !slices.ContainsFunc(f.Mounts, func(m agent.Mount) bool { return m.Target == "/mnt" && m.Type == "tmpfs" }) {
		t.Error("no tmpfs at /mnt")
	}
	for _, spec := range []bench.Spec{
		{Network: "host"},
		{Security: bench.Security{Seccomp: "unconfined"}},
		{Security: bench.Security{Privileged: true}},
		{Limits: bench.Limits{Pids: 10}},
	} {
		spec.Runtime = "runsc"
		if err := e.Prepare(t.Context(), spec); !errors.Is(err, bench.ErrUnsupported) {
			t.Errorf("Prepare(%+v) = %v, want bench.ErrUnsupported", spec, err)
		}
	}
}

// What is not there is refused with what to do.
func TestAdvice(t *testing.T) {
	e, _ := open(t)
	for advice, spec := range map[string]bench.Spec{
		"install it":               {Runtime: "no-such-runtime"},
		"containerd-shim-":         {Runtime: "io.containerd.no-such.v1"},
		"does not work here":       {Snapshotter: "no-such-snapshotter"},
		"use none, host or bridge": {Network: "macvlan"},
	} {
		err := e.Prepare(t.Context(), spec)
		if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), advice) {
			t.Errorf("Prepare(%+v) = %v, want bench.ErrUnsupported and %q", spec, err, advice)
		}
	}
}

// The image's user is looked up in its files.
func TestUserOfImage(t *testing.T) {
	e, _ := open(t)
	program, err := image.AgentBinary()
	if err != nil {
		t.Fatal(err)
	}
	passwd := imagetest.File("etc/passwd", "root:x:0:0::/:\nsomebody:x:4321:4321::/:\n")
	for user, want := range map[string]int{"somebody": 4321, "1234": 1234, "0:0": 0} {
		f, _ := facts(t, e, bench.Spec{Image: imagetest.ForeignOf(t, program, user, passwd)})
		if f.UID != want {
			t.Errorf("user %q runs as %d, want %d", user, f.UID, want)
		}
	}
	spec := bench.Spec{Image: imagetest.ForeignOf(t, program, "no-such-user", passwd)}
	if err := e.Prepare(t.Context(), spec); err == nil {
		t.Error("Prepare of an image whose user does not exist succeeds")
	}
}

// An image of the user's own namespace is found by its name, and stays there.
func TestImageOfAnotherNamespace(t *testing.T) {
	e, env := open(t)
	const ref, theirs = "tare.test/own:latest", "tare-test"
	t.Setenv("CONTAINERD_NAMESPACE", theirs)
	if err := e.Prepare(t.Context(), bench.Spec{Image: ref}); err == nil ||
		!strings.Contains(err.Error(), "ctr --namespace "+theirs) {
		t.Errorf("Prepare of an image that is not there = %v, want what to do", err)
	}
	store := theirStore(t, theirs, env, ref)
	img, err := env.Images.Resolve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, applied := facts(t, e, bench.Spec{Image: ref}); applied.Image != img.Digest() {
		t.Errorf("Inspect names the image %s, want %s", applied.Image, img.Digest())
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.GetImage(t.Context(), ref); err != nil {
		t.Errorf("the user's own image after Close: %v", err)
	}
}

// theirStore puts the agent's image into a namespace, for the test's time.
func theirStore(t *testing.T, namespace string, env enginetest.Env, ref string) *ctd.Client {
	t.Helper()
	address := os.Getenv("CONTAINERD_ADDRESS")
	if address == "" {
		address = "/run/containerd/containerd.sock"
	}
	c, err := ctd.New(address, ctd.WithDefaultNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		err := errors.Join(
			c.ImageService().Delete(ctx, ref, images.SynchronousDelete()),
			c.NamespaceService().Delete(ctx, namespace),
			c.Close())
		if err != nil {
			t.Error(err)
		}
	})
	img, err := env.Images.Resolve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := img.WriteDockerArchive(&archive, ref); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Import(t.Context(), &archive); err != nil {
		t.Fatal(err)
	}
	return c
}

// A pull that is cut short leaves nothing of what it had fetched: no lease holds it.
func TestPullCutShort(t *testing.T) {
	e, env := open(t)
	address := cmp.Or(os.Getenv("CONTAINERD_ADDRESS"), defaults.DefaultAddress)
	c, err := ctd.New(address, ctd.WithDefaultNamespace("tare"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // only read
	offered := registrytest.Content(t, registrytest.Prepared(t, env.Images))
	spec := bench.Spec{
		Image: registrytest.Serve(t, offered, "tare-"+env.Run+"/pull", registrytest.Misbehaviours()["stalls in a blob"]),
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := e.Pull(ctx, spec); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Pull = %v, want context.DeadlineExceeded", err)
	}
	var left []string
	err = c.ContentStore().Walk(namespaces.WithNamespace(t.Context(), "tare"), func(i content.Info) error {
		for _, source := range i.Labels { // containerd labels what it has fetched with where it comes from
			if strings.Contains(source, env.Run) {
				left = append(left, i.Digest.String())
			}
		}
		return nil
	})
	if err != nil || len(left) > 0 {
		t.Errorf("left of what was fetched: %q, %v", left, err)
	}
}
