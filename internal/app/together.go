package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/remote/peer"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/text/unit"
)

// A Together is a plan that is measured on several hosts, whose blocks begin at the same times. It
// is measured once, and must be closed.
type Together struct {
	Planned *Planned // its engines are those that all hosts have
	ID      string   // of the measurement; those of its runs begin with it

	hosts []*jointHost
}

// A jointHost is one of the hosts, with its run.
type jointHost struct {
	name    string // as it was asked for
	run     string // the ID of its run
	session *peer.Session
	survey  hostSurvey
	shift   time.Duration // what is added to its clock, to have the one of this machine
	joint   bench.Joint
	stored  *bench.Run // what this machine has of it; nil if nothing
	refused error      // why it did not begin

	measured bool // a trial has come since it began; of the conductor's goroutine

	decisions chan *decision // for a run that waits before a block; nil = it is interrupted
}

// Hosts are the names of the hosts, as they were asked for.
func (t *Together) Hosts() (all []string) {
	for _, h := range t.hosts {
		all = append(all, h.name)
	}
	return all
}

// Runs are the IDs of the runs, one of each host.
func (t *Together) Runs() (all []string) {
	for _, h := range t.hosts {
		all = append(all, h.run)
	}
	return all
}

// ClocksApart says which clocks differ so much from the one of this machine that somebody may wonder.
func (t *Together) ClocksApart() (all []string) {
	const much = 2 * time.Second
	for _, h := range t.hosts {
		switch ahead := -h.shift; {
		case ahead > much:
			all = append(all, fmt.Sprintf("the clock of %s is %s ahead of the one here, which gives all times", h.name,
				unit.FormatDuration(ahead)))
		case ahead < -much:
			all = append(all, fmt.Sprintf("the clock of %s is %s behind the one here, which gives all times", h.name,
				unit.FormatDuration(-ahead)))
		}
	}
	return all
}

// Close ends the sessions. It waits for tare to end on the hosts; the error names those where it has not.
func (t *Together) Close() error {
	return t.each(func(h *jointHost) error {
		if h.session == nil {
			return nil
		}
		return h.session.Close()
	})
}

// CheckHosts reports what is wrong with a list of hosts, as a Problem.
func CheckHosts(hosts []string) error {
	for i, host := range hosts {
		if err := peer.CheckHost(host); err != nil {
			return &Problem{Kind: BadHost, Err: err}
		}
		if slices.Contains(hosts[:i], host) {
			return &Problem{Kind: BadHost, Err: fmt.Errorf("host %s is named twice", host)}
		}
	}
	if len(hosts) > bench.MaxJoint {
		return &Problem{Kind: BadHost, Err: fmt.Errorf("%d hosts are named, and at most %d can be measured together",
			len(hosts), bench.MaxJoint)}
	}
	return nil
}

// PlanTogether starts tare on every host, and expands an experiment for all of them: the same plan
// everywhere, with the engines that can be used on each. Errors are as those of Plan.
func (a *App) PlanTogether(ctx context.Context, e *experiment.Experiment, hosts []string) (*Together, error) {
	if err := CheckHosts(hosts); err != nil {
		return nil, err
	}
	t := newTogether(newRunID(a.config.Now()), hosts)
	err := t.each(func(h *jointHost) error { return a.reach(ctx, h) })
	if err == nil {
		err = t.plan(ctx, e)
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func newTogether(id string, hosts []string) *Together {
	t := &Together{ID: id}
	for i, host := range hosts {
		t.hosts = append(t.hosts, &jointHost{
			name: host, run: id + runSuffix(i), decisions: make(chan *decision),
			joint: bench.Joint{ID: id, Host: host, Hosts: hosts},
		})
	}
	return t
}

// each does something with all hosts at the same time.
func (t *Together) each(do func(h *jointHost) error) error {
	errs := make([]error, len(t.hosts))
	var all sync.WaitGroup
	for i, h := range t.hosts {
		all.Go(func() { errs[i] = do(h) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// reach starts tare on a host.
func (a *App) reach(ctx context.Context, h *jointHost) (err error) {
	if h.session, err = a.config.start(ctx, h.name, hostRole, h.run); err != nil {
		return err
	}
	return h.setShift(ctx)
}

// setShift finds out what is added to a host's clock, to have the one of this machine: by the fastest of
// a few answers.
func (h *jointHost) setShift(ctx context.Context) error {
	shortest := time.Duration(0)
	for i := range 5 {
		var there int64
		began := time.Now()
		if err := h.session.Call(ctx, opClock, struct{}{}, &there); err != nil {
			return err
		}
		if took := time.Since(began); i == 0 || took < shortest { // monotonic
			shortest = took
			h.shift = began.Add(took / 2).Sub(time.Unix(0, there))
		}
	}
	return nil
}

// plan asks the hosts what they have, and makes the plan.
func (t *Together) plan(ctx context.Context, e *experiment.Experiment) error {
	p := &Planned{instances: WithDeclared(Builtin(), e.Instances())}
	able := knownDrivers(p.instances)
	if err := t.each(func(h *jointHost) error {
		return h.session.Call(ctx, opSurvey, surveyRequest{able}, &h.survey)
	}); err != nil {
		return err
	}
	p.Probed = t.everywhere(able)
	k := knownNames()
	k.Found = p.usableEngines
	var err error
	if p.Plan, err = e.Plan(k, randomSeed()); err != nil {
		return &Problem{Kind: BadPlan, Err: err}
	}
	t.Planned = p
	p.Workload = workloadNamed(p.Plan.Workload)
	p.nameOnlyImage()
	memory := t.hosts[0].survey.Host.Memory
	for _, h := range t.hosts {
		memory = min(memory, h.survey.Host.Memory)
	}
	p.chooseTurns(false, memory)
	var missing []error
	for _, e := range p.Used() {
		if e.Err != nil {
			missing = append(missing, e.Err)
		}
	}
	if missing != nil {
		return &Problem{Kind: Unusable, Err: errors.Join(missing...), Names: p.usableEngines()}
	}
	return p.checkParams()
}

// everywhere joins what the hosts say of engines: one that cannot be used on some host cannot be used.
func (t *Together) everywhere(asked []Instance) (all []Probed) {
	for i, instance := range asked {
		one := Probed{Instance: instance}
		for _, h := range t.hosts {
			if i >= len(h.survey.Engines) || h.survey.Engines[i].Instance.Name != instance.Name {
				one.Err = fmt.Errorf("host %s: engine %s: no answer", h.name, instance.Name)
				one.Lacking = append(one.Lacking, h.name)
				continue
			}
			there := h.survey.Engines[i]
			one.Info = there.Info
			if there.Why != "" {
				one.Lacking = append(one.Lacking, h.name)
				one.Err = errors.Join(one.Err, refusedThere(
					fmt.Sprintf("host %s: engine %s: %s", h.name, instance.Name, there.Why), there.Unsupported))
			}
		}
		all = append(all, one)
	}
	return all
}

// refusedThere is an error of another host, in its words.
func refusedThere(text string, isUnsupported bool) error {
	if isUnsupported {
		return &unsupported{text}
	}
	return errors.New(text)
}

// MeasureTogether runs a plan on all hosts to its end, and stores a run for each. The error says what
// became of the hosts whose runs are not finished; it wraps run.ErrInterrupted if the user ended it.
// The App needs a state directory. Of the options, Create is not used.
func (a *App) MeasureTogether(ctx context.Context, s bench.Store, t *Together, o Options) error {
	dir, err := a.newRunDir(t.ID, nil) // says that the runs are under way
	if err != nil {
		return err
	}
	p, names := t.Planned, RunNames(o.Name, t.Hosts())
	_ = t.each(func(h *jointHost) error {
		ask := hostedPlan{
			ID: h.run, Name: names[slices.Index(t.hosts, h)], Plan: p.Plan, Engines: p.usedInstances(), Joint: h.joint,
			Shift: h.shift,
		}
		h.refused = h.session.Call(ctx, opMeasure, ask, nil) // which is told in time
		return nil
	})
	return errors.Join(a.conduct(ctx, s, t, o), dir.remove())
}

// runSuffix ends the ID and the name of a host's run, which begin with those of the whole.
func runSuffix(host int) string { return "-" + strconv.Itoa(host+1) }

// RunNames are what the runs of hosts are called that measure together, in the order of the hosts: nothing if the whole
// has no name. A single host, and this machine without any, has one run with that name.
func RunNames(name string, hosts []string) []string {
	if len(hosts) < 2 {
		return []string{name}
	}
	all := make([]string, len(hosts))
	for i := range all {
		if name != "" {
			all[i] = name + runSuffix(i)
		}
	}
	return all
}

// errNotKept is wrapped by the error of what a host has sent and cannot be stored here.
var errNotKept = errors.New("what it has sent cannot be stored")

// follow stores what a host measures while it is measured, or what is there of it, and tells each
// piece. It returns when the host has no more.
func (h *jointHost) follow(ctx context.Context, s bench.Store, plan *bench.Plan, tell func(record.Event)) (err error) {
	stream, err := h.session.Stream(ctx, opRecords, struct{}{})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has ended before it began
	}
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // it was only read
	d := record.NewDecoder(stream)
	var c *record.Copier
	defer func() {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	for {
		e, err := d.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", h.name, err)
		case e.Header != nil && c != nil:
			err = errors.New("it has sent two runs")
		case e.Header != nil:
			if err = h.checkHeader(e.Header, plan); err == nil {
				c, err = record.NewFetcher(ctx, s, *e.Header)
			}
		default:
			err = errors.Join(c.Add(ctx, e), c.Flush(ctx))
		}
		if err != nil {
			return fmt.Errorf("%w: run %s: %w", errNotKept, h.run, err)
		}
		tell(e)
	}
}

// checkHeader refuses a run that is not the one that was asked for.
func (h *jointHost) checkHeader(got *bench.Header, plan *bench.Plan) error {
	if got.ID != h.run || got.Joint == nil || got.Joint.ID != h.joint.ID || got.Joint.Host != h.name ||
		!slices.Equal(got.Joint.Hosts, h.joint.Hosts) || !sameJSON(got.Plan, *plan) {
		return errors.New("it is another run than the one that was asked for")
	}
	return nil
}
