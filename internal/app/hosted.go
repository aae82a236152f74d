package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/host"
	"github.com/tare-bench/tare/internal/remote/peer"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/store/record"
)

// What the machine that starts a measurement asks of each host of it.
const (
	opClock     = "clock"     // answers with the wall clock, in nanoseconds since 1970
	opSurvey    = "survey"    // surveyRequest → hostSurvey
	opMeasure   = "measure"   // hostedPlan: begins the run
	opResume    = "resume"    // a stream of records: puts the run there, and goes on with it
	opReady     = "ready"     // answers with the next arrival, or with what the run does
	opGo        = "go"        // a decision: begins the block, or ends the run
	opInterrupt = "interrupt" // interruption
	opRecords   = "records"   // answers with the records, until the run has ended
	opForget    = "forget"    // removes the records
)

// Limits on what a host reads of one request, in bytes.
const (
	maxHostedPlan = 16 << 20
	maxDecision   = 4 << 10
)

type (
	surveyRequest struct {
		Engines []Instance `json:"engines"`
	}

	// A hostSurvey is what a host says of itself.
	hostSurvey struct {
		Host    bench.HostFacts  `json:"host"`
		Engines []surveyedEngine `json:"engines"`
	}

	surveyedEngine struct {
		Instance    Instance         `json:"instance"`
		Info        bench.EngineInfo `json:"info,omitzero"`
		Why         string           `json:"why,omitempty"` // it cannot be used
		Unsupported bool             `json:"unsupported,omitempty"`
	}

	// A hostedPlan is a run for a host.
	hostedPlan struct {
		ID      string        `json:"id"`
		Name    string        `json:"name,omitempty"`
		Plan    bench.Plan    `json:"plan"`
		Engines []Instance    `json:"engines"`
		Joint   bench.Joint   `json:"joint"`
		Shift   time.Duration `json:"shift_ns"` // what is added to the host's clock
	}

	// An arrival is that a run waits before a block, or that it has ended.
	arrival struct {
		Block  int              `json:"block"`
		Reason bench.StopReason `json:"reason,omitempty"` // why it would end now
		Ended  bool             `json:"ended,omitempty"`
		// Why the run ended, if not because it is finished.
		Error       string `json:"error,omitempty"`
		Unsupported bool   `json:"unsupported,omitempty"`
		Full        bool   `json:"full,omitempty"` // a disk there is
		Interrupted bool   `json:"interrupted,omitempty"`
		LeftBehind  bool   `json:"left_behind,omitempty"`

		Doing *doing `json:"doing,omitempty"` // it has not arrived: it is in a block
	}

	// A doing is a part of a trial that has begun.
	doing struct {
		Trial bench.Trial `json:"trial"`
		Part  string      `json:"part"`
	}

	// A decision is what a run does before a block.
	decision struct {
		Block  int              `json:"block"`
		Reason bench.StopReason `json:"reason,omitempty"` // why it ends; empty = it begins the block
	}

	interruptRequest struct {
		Abort bool `json:"abort,omitempty"` // the trial in flight, too
	}
)

// hosted is this machine as a host of a measurement that another machine has started. It has one run
// at most.
type hosted struct {
	app     *App
	run     string // its ID, which the name of the directory is
	records *recordFile
	clock   func() time.Time // this machine's
	shift   atomic.Int64     // added to it, which gives the common one

	interrupted chan struct{}
	interrupt   func()
	cancel      context.CancelFunc // aborts the trial in flight
	ctx         context.Context    // ends when the trial in flight is aborted

	mu        sync.Mutex
	begun     bool
	trialTime time.Duration // the limit of a trial of the run

	arrivals  chan arrival
	doings    chan doing // the latest, if it was not told yet
	decisions chan decision
	ended     chan struct{} // closed when last is set, and the run has ended
	last      arrival
}

// hostRole is that of a host: 'tare agent measure'.
const hostRole = "measure"

// abortTime is how long a trial in flight may take at least when the machine that started it is gone.
const abortTime = time.Minute

// Host measures on this machine for the machine at the other ends of two files, which starts blocks
// here and on other hosts at the same times. Records are kept in dir until that machine has them.
// When it goes away, the run is interrupted, and Host returns when nothing is left of it but its
// records. The App needs a state directory.
func (a *App) Host(ctx context.Context, in, out *os.File, dir string, address netip.Addr) error {
	h := &hosted{
		run: filepath.Base(dir), records: newRecordFile(filepath.Join(dir, "run.jsonl")), interrupted: make(chan struct{}),
		arrivals: make(chan arrival), doings: make(chan doing, 1), decisions: make(chan decision),
		ended: make(chan struct{}),
	}
	h.interrupt = sync.OnceFunc(func() { close(h.interrupted) })
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	defer h.cancel()
	own := *a
	h.clock = a.config.Now
	own.config.Now = func() time.Time { return h.clock().Add(time.Duration(h.shift.Load())) }
	own.config.Observer = &partTeller{doings: h.doings}
	h.app = &own
	greeting := peer.Greeting{Version: a.config.Version, Role: hostRole, Address: address}
	err := peer.Serve(ctx, in, out, greeting, h.handler())
	h.leave()
	return errors.Join(err, h.records.close())
}

// leave interrupts the run, and returns when it has ended. The trial in flight is finished, however long it may take:
// one of many parts takes minutes, and all of them would be lost.
func (h *hosted) leave() {
	h.interrupt()
	h.mu.Lock()
	begun, most := h.begun, max(abortTime, h.trialTime)
	h.begun = true // nothing begins any more
	h.mu.Unlock()
	if begun {
		late := time.AfterFunc(most, h.cancel)
		defer late.Stop()
		<-h.ended
	}
}

// A partTeller tells which part of a trial begins, when nothing is timed. Records tell the rest, after each block.
type partTeller struct {
	NopObserver
	doings chan doing
	trial  bench.Trial
}

// OnEvent implements Observer.
func (t *partTeller) OnEvent(e run.Event) {
	switch e := e.(type) {
	case run.TrialBegan:
		t.trial = e.Trial
	case run.PartBegan:
		select {
		case <-t.doings: // nobody has asked meanwhile
		default:
		}
		t.doings <- doing{t.trial, e.Part}
	}
}

func (h *hosted) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(name string, do func(w http.ResponseWriter, r *http.Request) (any, error)) {
		mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) {
			out, err := do(w, r)
			peer.Answer(w, name, out, err)
		})
	}
	handle(opClock, func(http.ResponseWriter, *http.Request) (any, error) { return h.clock().UnixNano(), nil })
	handle(opSurvey, h.survey)
	handle(opMeasure, h.measure)
	handle(opResume, h.resume)
	handle(opReady, h.ready)
	handle(opGo, h.goOn)
	handle(opInterrupt, func(w http.ResponseWriter, r *http.Request) (any, error) {
		var ask interruptRequest
		err := peer.Read(w, r, maxDecision, &ask)
		h.interrupt()
		if ask.Abort {
			h.cancel()
		}
		return nil, err
	})
	handle(opForget, func(http.ResponseWriter, *http.Request) (any, error) {
		return nil, ignoreMissing(os.Remove(h.records.path))
	})
	mux.HandleFunc("POST /"+opRecords, func(w http.ResponseWriter, r *http.Request) {
		err := h.awaitFormer(r.Context())
		if err == nil {
			err = h.records.stream(r.Context(), w, h.over())
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %w", errNoRecords, fs.ErrNotExist)
		}
		if err != nil {
			peer.Answer(w, opRecords, nil, err)
		}
	})
	return mux
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// awaitFormer waits until the tare of an earlier session has ended the run here: when its connection is lost,
// it finishes the trial in flight first, whose record would be missing.
func (h *hosted) awaitFormer(ctx context.Context) error {
	const pause = 50 * time.Millisecond
	for !h.hasBegun() && h.app.isLocked(h.run) {
		if err := bench.Sleep(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

// hasBegun reports whether this process has begun the run.
func (h *hosted) hasBegun() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun
}

// over is closed when nothing is appended to the records any more.
func (h *hosted) over() <-chan struct{} {
	if h.hasBegun() {
		return h.ended
	}
	over := make(chan struct{})
	close(over)
	return over
}

// survey asks engines what they are.
func (h *hosted) survey(w http.ResponseWriter, r *http.Request) (any, error) {
	var ask surveyRequest
	if err := peer.Read(w, r, maxHostedPlan, &ask); err != nil {
		return nil, err
	}
	out := hostSurvey{Host: host.Facts(fsRoot)}
	all, err := h.app.EngineSite("survey", "").Probe(r.Context(), ask.Engines)
	for _, e := range all {
		one := surveyedEngine{Instance: e.Instance, Info: e.Info, Unsupported: errors.Is(e.Err, bench.ErrUnsupported)}
		if e.Err != nil {
			one.Why = e.Err.Error()
		}
		out.Engines = append(out.Engines, one)
	}
	return out, err
}

// measure begins a run.
func (h *hosted) measure(w http.ResponseWriter, r *http.Request) (any, error) {
	var ask hostedPlan
	if err := peer.Read(w, r, maxHostedPlan, &ask); err != nil {
		return nil, err
	}
	if err := bench.ValidRunID(ask.ID); err != nil {
		return nil, err
	}
	h.shift.Store(int64(ask.Shift))
	ask.Joint.Ahead = -ask.Shift
	return nil, h.begin(ask.Plan.TrialTime, func(ctx context.Context, o Options) error {
		p, err := h.app.replan(ctx, ask.Plan, ask.Engines, h.app.runSite(ask.ID))
		if err == nil {
			err = p.Usable(ctx)
		}
		if err != nil {
			return err
		}
		o.Name, o.joint = ask.Name, &ask.Joint
		_, err = h.app.Measure(ctx, h.records, p, o)
		return err
	})
}

// resume puts the records that the other machine has into the file, and goes on with the run.
func (h *hosted) resume(_ http.ResponseWriter, r *http.Request) (any, error) {
	shift, err := time.ParseDuration(r.URL.Query().Get("shift"))
	if err != nil {
		return nil, err
	}
	var stored *bench.Run
	for run, err := range record.Read(r.Body) {
		if err != nil {
			return nil, err
		}
		stored = run
		break
	}
	if stored == nil {
		return nil, errNoRecords
	}
	h.shift.Store(int64(shift))
	return nil, h.begin(stored.Header.Plan.TrialTime, func(ctx context.Context, o Options) error {
		if err := h.records.put(ctx, stored); err != nil {
			return err
		}
		_, err := h.app.Resume(ctx, h.records, stored, o)
		return err
	})
}

// begin begins the run, of which there is one. No trial of it takes longer than trialTime.
func (h *hosted) begin(trialTime time.Duration, do func(ctx context.Context, o Options) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun {
		return errors.New("a run has begun already")
	}
	h.begun, h.trialTime = true, trialTime
	go func() {
		defer close(h.ended)
		err := do(h.ctx, Options{Interrupt: h.interrupted, barrier: h.barrier})
		h.last = arrival{
			Ended: true, Unsupported: errors.Is(err, bench.ErrUnsupported), LeftBehind: errors.Is(err, errLeftBehind),
			Full:        errors.Is(err, syscall.ENOSPC),
			Interrupted: errors.Is(err, run.ErrInterrupted) || err != nil && h.ctx.Err() != nil,
		}
		if err != nil {
			h.last.Error = err.Error()
		}
	}()
	return nil
}

// barrier waits until the other machine says that a block begins. That machine has the records of the
// blocks before by then.
func (h *hosted) barrier(ctx context.Context, block int, reason bench.StopReason) (bench.StopReason, error) {
	h.records.publish(ctx)
	select {
	case <-h.doings: // of the block before
	default:
	}
	select {
	case h.arrivals <- arrival{Block: block, Reason: reason}:
	case <-h.interrupted:
		return "", run.ErrInterrupted
	case <-ctx.Done():
		return "", ctx.Err()
	}
	select {
	case d := <-h.decisions:
		if d.Block != block {
			return "", fmt.Errorf("block %d was started, but the run is at block %d", d.Block, block)
		}
		return d.Reason, nil
	case <-h.interrupted:
		return "", run.ErrInterrupted
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// ready waits until the run begins a part of a trial, waits before a block, or has ended.
func (h *hosted) ready(_ http.ResponseWriter, r *http.Request) (any, error) {
	select {
	case at := <-h.arrivals:
		return at, nil
	case d := <-h.doings:
		return arrival{Doing: &d}, nil
	case <-h.ended:
		return h.last, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// goOn passes a decision to the run.
func (h *hosted) goOn(w http.ResponseWriter, r *http.Request) (any, error) {
	var d decision
	if err := peer.Read(w, r, maxDecision, &d); err != nil {
		return nil, err
	}
	select {
	case h.decisions <- d:
		return nil, nil
	case <-h.ended:
		return nil, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}
