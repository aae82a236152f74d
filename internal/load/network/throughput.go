package network

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/turn"
)

// A throughputTest measures throughput.
type throughputTest struct {
	turns *turn.Page // nil = the data flow in one go
	plan  plan
	knee  bool
}

// Throughput runs the load net-throughput: streams as fast as possible, or at a rate, in
// one direction or both.
func Throughput(a *load.Args) (*load.Report, error) {
	where := targetOf(a)
	protocol := a.Word("protocol", tcp, tcp, udp)
	size, most := int64(128<<10), int64(maxSize)
	if protocol == udp {
		size, most = 1440, maxDatagram
	}
	r := &throughputTest{
		turns: a.Turns,
		plan: plan{
			Protocol:  protocol,
			Streams:   int(a.Int("streams", 1, 1, maxStreams)),
			Direction: a.Word("direction", up, up, down, both),
			Size:      int(a.Int("size", size, headerBytes, most)),
			Rate:      a.Int("rate", 0, 0, maxRate),
			Single:    a.Word("batch", "yes", "yes", "no") == "no",
			Warmup:    a.Duration("warmup", 200*time.Millisecond, 0, time.Minute),
			Time:      a.Duration("time", time.Second, 10*time.Millisecond, maxTime),
			Pin:       a.Word("pin", "yes", "yes", "no") == "yes",
		},
		knee: a.Word("knee", "no", "no", "yes") == "yes",
	}
	if err := a.Err(); err != nil {
		return nil, err
	}
	t, err := where()
	if err != nil {
		return nil, err
	}
	return r.measure(t)
}

func (r *throughputTest) measure(t target) (*load.Report, error) {
	c, err := connect(t)
	if err != nil {
		return nil, err
	}
	defer c.close()
	turns := r.plan.Protocol == tcp && r.turns != nil
	if !turns { // datagrams that are sent as fast as possible are lost in between
		r.turns.Whole()
		r.turns = nil
	}
	o, stretch, err := c.observe(r.turns, r.plan)
	if err != nil {
		return nil, err
	}
	if o.client.Bytes+o.server.Bytes == 0 {
		return nil, fmt.Errorf(
			"no data arrived within the measured %v: this machine is too busy, or the network blocks the data; "+
				"a longer time may help", r.plan.Time)
	}
	report := r.report(o)
	if turns {
		report.Measured += (r.plan.Time / load.StretchShare).Seconds()
		report.Values["throughput.rate"+load.StretchSuffix] = stretch
	}
	if r.knee && r.plan.Protocol == udp {
		knee, err := r.findKnee(c, o)
		if err != nil {
			return nil, err
		}
		if knee == 0 {
			report.Notes = append(report.Notes, NoteNoKnee)
			return report, nil
		}
		report.Values["throughput.knee"] = knee
	}
	return report, nil
}

// An outcome is the result of a session with data streams.
type outcome struct {
	client, server window
	sent           uint64 // datagrams of both sides
	tally          tally  // of both
	slices         []float64
	duration       time.Duration
	noSharedCPU    bool
	threads        int // number of the client's threads that can be busy at once
}

// observe runs one session, in turns if there is a page for them. Stretch is the rate of the
// uninterrupted stretch then, in bytes per second.
func (c *client) observe(page *turn.Page, p plan) (o outcome, stretch float64, err error) {
	p.Turns = page != nil
	s, err := c.open(p)
	if err != nil {
		return o, 0, err
	}
	defer s.endSession()
	begin := s.now()
	if page != nil {
		o, stretch, err = s.inTurns(page)
	} else if err = s.begin(); err == nil {
		o.client, o.server, err = s.windows()
	}
	if err != nil {
		return o, 0, err
	}
	o.noSharedCPU, o.threads, o.duration = s.noSharedCPU, max(1, len(s.cpus)), s.now()-begin
	end, err := s.finish()
	if err != nil {
		return o, 0, err
	}
	o.tally = sum(s.flows).merge(end.Tally)
	for _, n := range append(s.sent(), end.Sent...) {
		o.sent += n
	}
	return o, stretch, nil
}

// windows waits for the windows of both sides.
func (s *session) windows() (here, there window, err error) {
	measured := make(chan window, 1)
	go func() {
		w, _ := s.measure() // stopped early only after another error
		measured <- w
	}()
	a, err := s.client.answer(s.plan.Warmup + s.plan.Time + replyLimit)
	switch {
	case err != nil:
		s.endSession()
	case a.Window == nil:
		err = ErrForeign
		s.endSession()
	default:
		there = *a.Window
	}
	return <-measured, there, err
}

// merge merges the tallies of two sides.
func (t tally) merge(o tally) tally {
	jitter := max(t.Jitter, o.Jitter)
	if t.Received > 0 && o.Received > 0 {
		jitter = (t.Jitter + o.Jitter) / 2
	}
	return tally{Received: t.Received + o.Received, Reordered: t.Reordered + o.Reordered, Jitter: jitter}
}

// rate is in bytes per second.
func (w window) rate() float64 { return float64(w.Bytes) / max(w.Elapsed, 1).Seconds() }

// cpu is the share of one CPU.
func (w window) cpu() float64 { return w.CPU.Seconds() / max(w.Elapsed, 1).Seconds() }

// loss is the share of lost datagrams.
func (o *outcome) loss() float64 {
	if o.sent == 0 || o.tally.Received >= o.sent {
		return 0
	}
	return float64(o.sent-o.tally.Received) / float64(o.sent)
}

func (r *throughputTest) report(o outcome) *load.Report {
	out := load.NewReport("net-throughput")
	out.Values["throughput.rate"] = o.client.rate() + o.server.rate()
	out.Measured = max(o.client.Elapsed, o.server.Elapsed).Seconds()
	out.AddSlices("throughput.rate", o.slices)
	out.Values["throughput.client_cpu"] = o.client.cpu()
	out.Values["throughput.server_cpu"] = o.server.cpu()
	if r.plan.Protocol == udp {
		out.Values["throughput.loss"] = o.loss()
		out.Values["throughput.offered"] = o.offered(r.plan.Size)
		if o.tally.Received > 0 {
			out.Values["throughput.reordered"] = float64(o.tally.Reordered) / float64(o.tally.Received)
			out.Values["throughput.jitter"] = o.tally.Jitter.Seconds()
		}
	}
	out.Facts["streams"] = strconv.Itoa(r.plan.Streams)
	if !o.noSharedCPU {
		out.Notes = append(out.Notes, NoteSameCPU)
	}
	if o.clientBound() {
		out.Notes = append(out.Notes, NoteClientBound)
	}
	return out
}

// offered is the rate at which datagrams were sent, in bytes per second.
func (o *outcome) offered(size int) float64 {
	return float64(o.sent) * float64(size) / max(o.duration, 1).Seconds()
}

// NoteNoKnee says that datagrams were lost at every rate that was tried.
const NoteNoKnee = "no-knee"

// NoteClientBound says that the client was the bottleneck: the server could do more.
const NoteClientBound = "client-bound"

// clientBound reports whether the client used all of its CPU time, but the server did not.
func (o *outcome) clientBound() bool {
	const full, clearly = 0.95, 0.10
	client, server := o.client.cpu()/float64(o.threads), o.server.cpu()/float64(o.threads)
	return client >= full && server <= client-clearly
}

const (
	kneeLoss  = 0.001 // the most that may be lost
	kneeSteps = 7     // of the bisection: to within 1 % of the highest rate
	kneeShare = 4     // each step takes this part of the time
)

// findKnee finds the highest rate at which at most kneeLoss is lost, between 0 and the
// rate that was sent as fast as possible. It returns 0 if there is no such rate.
func (r *throughputTest) findKnee(c *client, first outcome) (float64, error) {
	if r.plan.Rate == 0 && first.loss() <= kneeLoss {
		return first.offered(r.plan.Size), nil
	}
	p := r.plan
	p.Time = max(p.Time/kneeShare, 10*time.Millisecond)
	streams := float64(p.count())
	low, high := 0.0, max(first.offered(p.Size), float64(r.plan.Rate)*streams)
	for range kneeSteps {
		middle := (low + high) / 2
		p.Rate = max(1, int64(middle/streams))
		o, _, err := c.observe(nil, p)
		if err != nil {
			return 0, err
		}
		if o.loss() <= kneeLoss && o.offered(p.Size) > middle*kneeReached {
			low = middle
		} else {
			high = middle
		}
	}
	return low, nil
}

// kneeReached is the share of a rate that must have been sent for it to count: a sender
// that cannot keep up has not offered the rate.
const kneeReached = 0.9
