package network

import (
	"fmt"
	"time"

	"github.com/tare-bench/tare/internal/load"
)

// RTT runs the load net-rtt: one request after the other, which the server answers with
// the same bytes.
func RTT(a *load.Args) (*load.Report, error) {
	where := targetOf(a)
	p := &latencyTest{
		turns: a.Turns,
		plan: plan{
			Echo: true, Streams: 1,
			Protocol: a.Word("protocol", udp, udp, tcp),
			Size:     int(a.Int("size", 64, headerBytes, maxDatagram)),
			Pin:      a.Word("pin", "yes", "yes", "no") == "yes",
		},
		pings:   a.Int("pings", 20_000, 1, 1_000_000_000),
		warmup:  a.Int("warmup", 1000, 0, 1_000_000),
		rate:    a.Int("rate", 0, 0, 1_000_000),
		timeout: a.Duration("timeout", time.Second, time.Millisecond, 10*time.Second),
	}
	if err := a.Err(); err != nil {
		return nil, err
	}
	t, err := where()
	if err != nil {
		return nil, err
	}
	return p.measure(t)
}

func (p *latencyTest) measure(t target) (*load.Report, error) {
	c, err := connect(t)
	if err != nil {
		return nil, err
	}
	defer c.close()
	s, err := c.open(p.plan)
	if err != nil {
		return nil, err
	}
	defer s.endSession()
	if err := p.run(s); err != nil {
		return nil, err
	}
	if _, err := s.finish(); err != nil {
		return nil, err
	}
	return p.report(s)
}

// run pings on a thread of its own.
func (p *latencyTest) run(s *session) error {
	if err := s.begin(); err != nil {
		return err
	}
	if err := ready(s.flows[0].fd, p.plan.Protocol, p.timeout); err != nil {
		return err
	}
	p.prepare(s)
	var err error
	s.start(func() { err = p.pingAll() })
	s.running.Wait()
	if err != nil {
		return fmt.Errorf("%v: %w", s.client.tcp, err)
	}
	return nil
}

// NoteSameCPU says that client and server had to share a CPU.
const NoteSameCPU = "same-cpu"

// A percentile is one that is a metric.
type percentile struct {
	name    string
	p       float64
	primary bool
}

func percentiles() []percentile {
	return []percentile{{"rtt.p50", 50, true}, {"rtt.p90", 90, false}, {"rtt.p99", 99, true}, {"rtt.p99.9", 99.9, false}}
}

// minTail is how many observations must lie beyond a percentile for it to be reported.
const minTail = 10

func (p *latencyTest) report(s *session) (*load.Report, error) {
	r := load.NewReport("net-rtt")
	r.Values["rtt.lost"] = float64(p.lost)
	r.Measured = p.measured.Seconds()
	r.AddSlices("rtt.mean", p.stage.Slices()) // as many a second
	for _, q := range percentiles() {
		if float64(p.times.Count())*(100-q.p)/100 >= minTail {
			r.Values[q.name] = p.times.Percentile(q.p)
		}
		if q.primary && p.stretch != nil && float64(p.stretch.Count())*(100-q.p)/100 >= minTail {
			r.Values[q.name+load.StretchSuffix] = p.stretch.Percentile(q.p)
		}
	}
	if p.times.Count() > 0 {
		r.Values["rtt.max"], r.Values["rtt.mean"] = p.times.Percentile(100), p.times.Mean()
		d, err := p.times.Distribution()
		if err != nil {
			return nil, err
		}
		r.Distributions["rtt"] = d
	}
	if !s.noSharedCPU {
		r.Notes = append(r.Notes, NoteSameCPU)
	}
	return r, nil
}
