package pull

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image/registry"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/supervise/ready"
)

// A trial is one pull, and the container after it.
type trial struct {
	*fixture
	spec    bench.Spec // with the image
	puller  bench.Puller
	meter   bench.Meter
	content *registry.Content
	pulled  bench.Span
}

func (v *trial) run(ctx context.Context) error {
	if err := v.ready.Free(v.spec); err != nil {
		return err
	}
	offer := v.registry.Offer(v.name, v.content, v.meter.Now)
	v.spec.Image = offer.Reference()
	defer v.meter.Cleanup(func(ctx context.Context) error { return v.puller.Evict(ctx, v.spec) })
	traffic, err := v.pull(ctx, offer)
	if err != nil {
		return err
	}
	if err := v.report(traffic); err != nil {
		return err
	}
	// The engine's lookups of the new image happen here, and not in create.
	if _, err := v.meter.Step("prepare", func() error { return v.task.Engine.Prepare(ctx, v.spec) }); err != nil {
		return err
	}
	return v.start(ctx)
}

// pull lets this process use all CPUs for the time of the pull, as an engine's own client
// would: it is the registry, and containerd's client library fetches in this process.
func (v *trial) pull(ctx context.Context, offer *registry.Offer) (registry.Traffic, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU()))
	var err error
	v.pulled, err = v.meter.Step("pull", func() error { return v.puller.Pull(ctx, v.spec) })
	return offer.Withdraw(), err
}

// report computes the metrics of a pull. It fails if the engine did not fetch everything.
func (v *trial) report(t registry.Traffic) error {
	if t.Missing > 0 {
		return fmt.Errorf(
			"the pull was not cold: the engine did not fetch %d of %d bytes of the image: it had them already, "+
				"or fetches them later",
			t.Missing, v.content.Bytes)
	}
	last := min(t.Last, v.pulled.End) // the registry reads the clock after sending; the engine may be done by then
	v.meter.Record(Total, v.pulled.Duration().Seconds())
	v.meter.Record(Ask, (t.First - v.pulled.Begin).Seconds())
	v.meter.Record(Download, (last - t.First).Seconds())
	v.meter.Record(Unpack, (v.pulled.End - last).Seconds())
	v.meter.Record(Bytes, float64(t.Bytes))
	v.meter.Record(Plain, float64(v.content.Plain))
	return nil
}

// start makes and starts a container of the pulled image.
func (v *trial) start(ctx context.Context) error {
	p, err := v.ready.Start(ctx, v.task.Engine, v.spec, v.meter)
	if err != nil {
		return err
	}
	defer v.meter.Cleanup(p.Remove)
	begun, err := v.readyAfter(ctx, p)
	if err != nil {
		return err
	}
	create, start := p.Spans()
	v.meter.Record(Create, create.Duration().Seconds())
	v.meter.Record(Start, (begun - start.Begin).Seconds())
	v.meter.Record(Cold, (v.pulled.Duration() + create.Duration() + begun - start.Begin).Seconds())
	supervise.Record(v.meter, p.Count(ctx))
	return v.attest(p.Applied(ctx, v.meter))
}

// readyAfter returns the end of the cold start: the first instruction, or when the service was
// ready.
func (v *trial) readyAfter(ctx context.Context, p *ready.Service) (time.Duration, error) {
	if !v.marks {
		seen, err := p.Await(ctx)
		return seen.Ready, err
	}
	var output []byte
	if _, err := v.meter.Step("wait", func() (err error) { output, err = p.AwaitLines(ctx, 1); return err }); err != nil {
		return 0, err
	}
	mark, err := agent.ParseMark(output)
	if err != nil {
		return 0, err
	}
	_, start := p.Spans()
	if mark.First < start.Begin || mark.First > v.meter.Now() { // the process has another clock
		v.meter.Note(bench.NoteHostClock)
		return start.End, nil
	}
	return mark.First, nil
}

// attest checks that the container is of the image that was served. The sample keeps the
// digest of the original image, because that of the served one changes with each trial.
func (v *trial) attest(got bench.Applied) error {
	if !v.content.Is(got.Image) {
		return errors.Join(bench.ErrMismatch, fmt.Errorf("image: served %s, got %s", v.content.Digest, got.Image))
	}
	got.Image = v.digest
	return v.meter.Applied(v.spec, got)
}
