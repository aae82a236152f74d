package http

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/text/plain"
)

// Forms implements bench.Former.
func (workload) Forms() []bench.Form { return []bench.Form{{Name: "ab", Write: writeBlocks}} }

// writeBlocks writes, for each cell of a run, the block that users of ApacheBench (ab)
// know.
func writeBlocks(w io.Writer, run *bench.Run) error {
	var text bytes.Buffer
	for i, c := range run.Header.Plan.Cells {
		if c.Control {
			continue
		}
		b, err := blockOf(run, i)
		switch {
		case err != nil:
			return fmt.Errorf("cell %s: %w", c.FullName(), err)
		case b == nil:
			continue
		case text.Len() > 0:
			text.WriteString("\n\n")
		}
		b.write(&text)
	}
	if text.Len() == 0 {
		return errors.New("no trial of it ended well")
	}
	_, err := w.Write(text.Bytes())
	return err
}

// A block is what ab would say at the end of one run.
type block struct {
	software, hostname string
	port               string // empty = not known
	path               string
	length             float64 // bytes of the document; NaN = not known
	concurrency        string
	elapsed            time.Duration
	timely             float64 // good requests, those that were whole before Elapsed was over
	failed             float64 // requests
	connect            float64 // of the failed ones, by kind; these add up, or some are not known
	receive            float64
	wrongLength        float64
	exceptions         float64
	status             float64
	keepAlive          bool
	transferred        float64 // bytes of the timely ones

	// How times were spread; nil where that is not known.
	connecting, processing, waiting, total *load.Histogram
}

// blockOf joins the trials of a cell: what is counted adds up, and all times are
// in one distribution. It is nil where none ended well.
func blockOf(r *bench.Run, cell int) (*block, error) {
	c := &r.Header.Plan.Cells[cell]
	b := &block{
		software: softwareOf(c), hostname: plain.Line(strings.Join(strings.Fields(c.FullName()), " ")),
		path: plain.Line(cmp.Or(c.Params["path"], "/document")), concurrency: plain.Line(c.Params["connections"]),
		keepAlive: c.Params["keepalive"] == "yes",
		length:    math.NaN(),
	}
	if port := c.Params["port"]; port != "0" {
		b.port = plain.Line(port)
	}
	trials := 0
	for i := range r.Samples {
		s := &r.Samples[i]
		if s.Trial.Cell != cell || s.Trial.Warmup() || s.Outcome != bench.OK {
			continue
		}
		trials++
		addCounts(b, func(metric string) float64 { return valueOf(r, s, metric) })
		b.timely += timely(r, s)
		if length, ok := s.Value(indexOf(r, Document)); ok {
			b.length = length
		}
		if err := addTimes(b, s); err != nil {
			return nil, err
		}
	}
	if trials == 0 {
		return nil, nil
	}
	return b, nil
}

// softwareOf is what the server was, as far as the plan says.
func softwareOf(c *bench.Cell) string {
	program := c.Params["server"]
	if program == "" && c.Spec.Image == "" {
		program = "tare"
	}
	if c.Spec.Image == "" {
		return plain.Line(program)
	}
	return strings.TrimSpace(plain.Line(program + " (" + c.Spec.Image + ")"))
}

// valueOf is a metric of a sample; 0 where it has none.
func valueOf(r *bench.Run, s *bench.Sample, metric string) float64 {
	v, _ := s.Value(indexOf(r, metric))
	return v
}

func indexOf(r *bench.Run, metric string) int {
	return slices.IndexFunc(r.Header.Metrics, func(m bench.Metric) bool { return m.Name == metric })
}

func addCounts(b *block, value func(metric string) float64) {
	b.elapsed += time.Duration(value(Elapsed) * float64(time.Second))
	b.failed += value(Failed)
	b.connect += value(Failed + ".connect")
	b.receive += value(Failed + ".read")
	b.wrongLength += value(Failed + ".length")
	b.exceptions += value(Failed + ".timeout")
	b.status += value(Failed + ".status")
	b.transferred += value(Bytes)
}

// timely is how many good answers were whole before the end of the time. Only tare's
// own client, told a time, counts others too.
func timely(r *bench.Run, s *bench.Sample) float64 {
	good := valueOf(r, s, Requests) - valueOf(r, s, Failed)
	if p := r.Header.Plan.Cells[s.Trial.Cell].Params; p["tool"] != "" || p["requests"] != "0" {
		return good
	}
	return min(good, math.Round(valueOf(r, s, Rate)*valueOf(r, s, Elapsed)))
}

func addTimes(b *block, s *bench.Sample) error {
	processing := "http.processing"
	if b.keepAlive {
		processing = Time // nothing is done for a request before it is sent
	}
	for _, t := range []struct {
		metric string
		into   **load.Histogram
	}{{"http.connect", &b.connecting}, {processing, &b.processing}, {"http.first_byte", &b.waiting}, {Time, &b.total}} {
		i := slices.IndexFunc(s.Distributions, func(d bench.Distribution) bool { return d.Metric == t.metric })
		if i < 0 {
			continue
		}
		h, err := load.Distribution(s.Distributions[i].HDR).Histogram()
		if err != nil {
			return fmt.Errorf("%s: %w", strconv.Quote(t.metric), err)
		}
		if *t.into == nil {
			*t.into = load.NewHistogram()
		}
		(*t.into).Merge(h)
	}
	return nil
}

// write prints it. Times are in milliseconds as ab has them, with as many digits
// as are known.
func (b *block) write(w io.Writer) {
	b.head(w)
	b.rates(w)
	b.times(w)
	b.percentages(w)
}

func line(w io.Writer, name, format string, values ...any) {
	fmt.Fprintf(w, "%-24s%s\n", name+":", fmt.Sprintf(format, values...))
}

func (b *block) head(w io.Writer) {
	line(w, "Server Software", "%s", b.software)
	line(w, "Server Hostname", "%s", b.hostname)
	if b.port != "" {
		line(w, "Server Port", "%s", b.port)
	}
	fmt.Fprintln(w)
	line(w, "Document Path", "%s", b.path)
	if b.knowsLength() {
		line(w, "Document Length", "%.0f bytes", b.length)
	}
	fmt.Fprintln(w)
}

func (b *block) knowsLength() bool { return !math.IsNaN(b.length) }

func (b *block) rates(w io.Writer) {
	seconds := b.elapsed.Seconds()
	line(w, "Concurrency Level", "%s", b.concurrency)
	line(w, "Time taken for tests", "%.3f seconds", seconds)
	line(w, "Complete requests", "%.0f", b.timely+b.failed)
	b.failures(w)
	if b.keepAlive {
		line(w, "Keep-Alive requests", "%.0f", b.timely)
	}
	line(w, "Total transferred", "%.0f bytes", b.transferred)
	if b.knowsLength() {
		line(w, "HTML transferred", "%.0f bytes", b.timely*b.length)
	}
	line(w, "Requests per second", "%.2f [#/sec] (mean)", b.timely/seconds)
	if b.total != nil {
		line(w, "Time per request", "%.3f [ms] (mean)", 1000*b.total.Mean())
	}
	line(w, "Time per request", "%.3f [ms] (mean, across all concurrent requests)", 1000*seconds/max(1, b.timely))
	line(w, "Transfer rate", "%.2f [Kbytes/sec] received", b.transferred/1024/seconds)
}

func (b *block) failures(w io.Writer) {
	kinds := b.connect + b.receive + b.wrongLength + b.exceptions
	line(w, "Failed requests", "%.0f", b.failed-b.status)
	if kinds > 0 && kinds == b.failed-b.status {
		fmt.Fprintf(w, "   (Connect: %.0f, Receive: %.0f, Length: %.0f, Exceptions: %.0f)\n", b.connect, b.receive,
			b.wrongLength, b.exceptions)
	}
	if b.status > 0 {
		line(w, "Non-2xx responses", "%.0f", b.status)
	}
}

func (b *block) times(w io.Writer) {
	if b.total == nil {
		return
	}
	fmt.Fprintf(w, "\nConnection Times (ms)\n%-12s%9s%9s%9s%9s%9s\n", "", "min", "mean", "[+/-sd]", "median", "max")
	for _, row := range []struct {
		name string
		h    *load.Histogram
	}{{"Connect", b.connecting}, {"Processing", b.processing}, {"Waiting", b.waiting}, {"Total", b.total}} {
		if h := row.h; h != nil {
			fmt.Fprintf(w, "%-12s%9.3f%9.3f%9.3f%9.3f%9.3f\n", row.name+":", 1000*h.Min(), 1000*h.Mean(), 1000*h.StdDev(),
				1000*h.Percentile(50), 1000*h.Percentile(100))
		}
	}
}

func (b *block) percentages(w io.Writer) {
	if b.total == nil {
		return
	}
	fmt.Fprint(w, "\nPercentage of the requests served within a certain time (ms)\n")
	for _, p := range []float64{50, 66, 75, 80, 90, 95, 98, 99, 100} {
		longest := ""
		if p == 100 {
			longest = " (longest request)"
		}
		fmt.Fprintf(w, "%4.0f%%%10.3f%s\n", p, 1000*b.total.Percentile(p), longest)
	}
}
