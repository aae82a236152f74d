package containerd_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	ctd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/oci"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/containerd"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// BenchmarkOverhead compares create, start, wait and remove through the driver
// with a bare loop over the same calls of containerd's client.
func BenchmarkOverhead(b *testing.B) {
	env := enginetest.NewEnv(b, imagetest.Library(b))
	e := containerd.New(containerd.Config{
		Name: "containerd", Run: env.Run, Dir: env.Dir, Images: env.Images, Address: defaults.DefaultAddress,
	})
	enginetest.Use(b, e)
	enginetest.Overhead(b, enginetest.DriverSide(e, task()), newBare(b, e, env).run)
}

func task() bench.Spec { return bench.Spec{Argv: []string{agent.Path, "exit", "0"}} }

// A bareLoop makes containers as a program of the client library's authors
// would, over a connection of its own.
type bareLoop struct {
	client *ctd.Client
	image  ctd.Image
	env    enginetest.Env
	n      int // of the last container
}

func newBare(b *testing.B, e bench.Engine, env enginetest.Env) *bareLoop {
	b.Helper()
	if err := e.Prepare(b.Context(), task()); err != nil {
		b.Fatal(err)
	}
	c, err := ctd.New(defaults.DefaultAddress, ctd.WithDefaultNamespace("tare"),
		ctd.WithDefaultRuntime(defaults.DefaultRuntime))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() }) // nothing is pending
	images, err := c.ListImages(b.Context(), fmt.Sprintf(`labels."tare.run"==%s`, env.Run))
	if err != nil || len(images) != 1 {
		b.Fatalf("%d images of the run, %v", len(images), err)
	}
	return &bareLoop{client: c, image: images[0], env: env}
}

// run takes one container through its life and returns how long the calls took.
func (l *bareLoop) run(b *testing.B) time.Duration {
	b.Helper()
	ctx := b.Context()
	if _, err := l.client.Version(ctx); err != nil { // a connection is open, as after Prepare
		b.Fatal(err)
	}
	runtime.GC()
	var c ctd.Container
	var t ctd.Task
	var ended <-chan ctd.ExitStatus
	l.n++
	id := fmt.Sprintf("%s-bare-%d", l.env.Run, l.n)
	took := enginetest.Time(b, func() (err error) {
		if c, err = l.create(ctx, id); err != nil {
			return err
		}
		if t, err = c.NewTask(ctx,
			cio.NewCreator(cio.WithStreams(nil, discard{}, discard{}), cio.WithFIFODir(l.env.Dir))); err != nil {
			return err
		}
		ended, err = t.Wait(ctx)
		return err
	})
	took += enginetest.Time(b, func() error { return t.Start(ctx) })
	took += enginetest.Time(b, func() error { return (<-ended).Error() })
	return took + enginetest.Time(b, func() error {
		if _, err := t.Delete(ctx); err != nil {
			return err
		}
		return c.Delete(ctx, ctd.WithSnapshotCleanup)
	})
}

func (l *bareLoop) create(ctx context.Context, id string) (ctd.Container, error) {
	return l.client.NewContainer(ctx, id,
		ctd.WithContainerLabels(map[string]string{"tare.run": l.env.Run}),
		ctd.WithSnapshotter(defaults.DefaultSnapshotter),
		ctd.WithNewSnapshot(id, l.image, snapshots.WithLabels(map[string]string{"tare.run": l.env.Run})),
		ctd.WithNewSpec(
			oci.WithDefaultUnixDevices,
			oci.WithProcessArgs(task().Argv...),
			oci.WithCgroup("/tare/"+l.env.Run+"/"+id),
			oci.WithNewPrivileges,
			seccomp.WithDefaultProfile(),
		))
}

// discard is like io.Discard, but is copied to as any other writer is.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
