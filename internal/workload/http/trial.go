package http

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/load/https"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/supervise/capacity"
)

// Run implements bench.Workload.
func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	s, ok := t.Fixture.(*fixture)
	if !ok {
		return errors.New("the workload was not set up")
	}
	return batch{s}.Work(ctx, m, []supervise.PartSink{{Recorder: m, Err: func(err error) error { return err }}})
}

// A loadRun is the load of one stage: a running server, and its address.
type loadRun struct {
	*fixture
	clock     bench.Clock
	to        bench.Recorder // of the measured load; nil before there is one
	server    *supervise.Process
	port      uint16
	at        netip.AddrPort
	restUsage *proc.Usage // of the server after its first answer; nil = unknown
}

// whileServing cancels do when the server ends, and returns how it ended: a client knows
// only that the server does not answer.
func (v *loadRun) whileServing(ctx context.Context, do func(context.Context) error) error {
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end(v.server.Ended(running))
	}()
	err := do(running)
	if cause := context.Cause(running); err != nil && cause != nil && ctx.Err() == nil {
		err = cause
	}
	end(nil)
	<-ended // until then, Wait may still write to the output
	return err
}

// measure loads the server.
func (v *loadRun) measure(ctx context.Context) error {
	before, known := v.server.Usage(ctx)
	w := v.watch(ctx)
	report, err := v.load(ctx)
	after, most, still := w.stop(ctx)
	if err != nil {
		return err
	}
	if known && still {
		v.to.Record(memoryLoad, float64(most))
		v.recordCPU(report, after.CPU-before.CPU)
	}
	if v.restUsage != nil {
		v.to.Record(memoryRest, float64(v.restUsage.Alone()))
	}
	if v.task.Params["pin"] == "yes" && !v.separate {
		report.Notes = append(report.Notes, supervise.NoteSameCPU)
	}
	supervise.RecordReport(v.to, report)
	return nil
}

// awaitServer waits until the server answers, and reads the path to it.
func (v *loadRun) awaitServer(ctx context.Context) (err error) {
	if v.port == 0 {
		reports, err := v.server.Reports(ctx, 1)
		if err != nil {
			return err
		}
		port, err := strconv.ParseUint(reports[0].Facts["port"], 10, 16)
		if err != nil || port == 0 {
			return fmt.Errorf("server: it reports no valid port: %.80q", reports[0].Facts["port"])
		}
		v.port = uint16(port)
	}
	if v.at, err = v.server.Address(ctx, v.clock, v.port); err != nil {
		return err
	}
	if err := v.ready(ctx); err != nil {
		return err
	}
	if err := v.server.ReadPath(ctx, v.clock, v.port); err != nil {
		return err
	}
	if rest, known := v.server.Usage(ctx); known {
		v.restUsage = &rest
	}
	return nil
}

// readyTime is the time within which a server must answer its first request.
const readyTime = 20 * time.Second

// ready waits for the first good answer. This host sends the request or, if it cannot
// reach the server, a client that can.
func (v *loadRun) ready(ctx context.Context) error {
	if v.fixture.server.Reach == bench.ReachPeer {
		once := map[string]string{
			"requests": "1", "connections": "1", "warmup": "0s", "wait": readyTime.String(), "timeout": "1s",
		}
		if _, err := v.ask(ctx, once); err != nil {
			return fmt.Errorf("the server is not ready: %w", err)
		}
		return nil
	}
	_, err := v.clock.Step("ready", func() error {
		ctx, cancel := context.WithTimeout(ctx, readyTime)
		defer cancel()
		path, _ := v.path()
		scheme := map[string]string{"yes": "https", "no": "http"}[v.task.Params["tls"]]
		err := https.Ready(ctx, scheme+"://"+v.at.String()+path, v.task.Params["http2"] == "yes")
		return notReady(err)
	})
	return err
}

// notReady adds advice to the error of a server that gave no good answer: another path,
// or another port if there was no answer at all.
func notReady(err error) error {
	if err == nil {
		return nil
	}
	advice := "choose another path with option path"
	if _, none := errors.AsType[*url.Error](err); none {
		advice = "if it listens on another port, set option port"
	}
	return fmt.Errorf("the server was %w (%v): %w: %s", supervise.ErrNotReady, readyTime, err, advice)
}

// load runs the client.
func (v *loadRun) load(ctx context.Context) (*load.Report, error) {
	if tool := toolOf(v.task.Params); tool != nil {
		return v.askWith(ctx, tool)
	}
	options := clientOptions(v.task.Params)
	options["cpus"] = affinity.Format(v.cpus.client)
	options["rate"] = capacity.RatesOf(v.task, Name).Of(v.task.Condition, v.task.Params["rate"])
	return v.ask(ctx, options)
}

// ask runs the agent's client until it has reported.
func (v *loadRun) ask(ctx context.Context, options map[string]string) (report *load.Report, err error) {
	path, size := v.path()
	options["addr"], options["path"], options["expect"] = v.at.String(), path, strconv.FormatInt(size, 10)
	spec := v.clientSpec
	if spec.Argv, err = v.program(options); err != nil {
		return nil, err
	}
	if !encrypted(v.task) {
		if err := v.server.CheckTurns(ctx, v.task.Turns); err != nil {
			return nil, err
		}
	}
	client, err := supervise.Start(ctx, v.client, spec, v.clock, "client")
	if err != nil {
		return nil, err
	}
	defer v.clock.Cleanup(client.Remove)
	if !encrypted(v.task) {
		if err := client.TakeTurns(ctx, v.task.Turns); err != nil {
			return nil, err
		}
	}
	reports, err := client.Reports(ctx, 1)
	if err != nil {
		return nil, err
	}
	return reports[0], nil
}

// program returns the argv of the client: the agent or, for TLS and HTTP/2, tare itself.
func (v *loadRun) program(options map[string]string) ([]string, error) {
	if !encrypted(v.task) {
		return supervise.Loads(v.task.Turns, supervise.LoadOf(http.Name, options)), nil
	}
	options["tls"], options["http2"] = v.task.Params["tls"], v.task.Params["http2"]
	file, err := supervise.Self()
	return append([]string{file, "agent", "load"}, supervise.LoadOf("https", options)...), err
}

// recordCPU reports the CPU time of the server.
func (v *loadRun) recordCPU(r *load.Report, used time.Duration) {
	sent, err1 := strconv.ParseFloat(r.Facts["sent"], 64)
	span, err2 := strconv.ParseFloat(r.Facts["span"], 64)
	if err1 != nil || err2 != nil || !(sent > 0 && span > 0) {
		return
	}
	cpu := max(0, used).Seconds()
	share := cpu / span
	v.to.Record(serverCPU, share)
	if cpu > 0 {
		v.to.Record(cpuEach, cpu/sent)
	}
	// The client is the bottleneck if it has no CPU time left, but the server has.
	const full, clearly = 0.95, 0.10
	if client, ok := r.Values["http.client_cpu"]; ok && client >= full &&
		share/float64(max(1, len(v.cpus.server))) <= client-clearly {
		r.Notes = append(r.Notes, NoteLoadBound)
	}
}

// A memoryWatch keeps the largest memory usage of a server.
type memoryWatch struct {
	cancel context.CancelFunc
	ended  chan struct{}
	server *supervise.Process
	peak   int64 // bytes
}

// watchEvery is the interval of the readings: each takes some 100 µs of CPU time.
const watchEvery = 500 * time.Millisecond

func (v *loadRun) watch(ctx context.Context) *memoryWatch {
	ctx, cancel := context.WithCancel(ctx)
	w := &memoryWatch{cancel: cancel, ended: make(chan struct{}), server: v.server}
	if turns := v.task.Turns; turns != nil && turns.On() && (workload{}).TakesTurns(v.task.Params) {
		// It would read while others have their turn.
		close(w.ended)
		return w
	}
	go func() {
		defer close(w.ended)
		for tick := time.NewTicker(watchEvery); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				if u, ok := w.server.Usage(ctx); ok {
					w.peak = max(w.peak, u.Alone())
				}
			}
		}
	}()
	return w
}

// stop returns the usage of the server, and its largest memory usage in bytes.
func (w *memoryWatch) stop(ctx context.Context) (u proc.Usage, memory int64, known bool) {
	w.cancel()
	<-w.ended
	u, known = w.server.Usage(ctx)
	return u, max(u.Alone(), w.peak), known
}
