// Package apachebench prints what a web server was measured to do in the form
// that users of ApacheBench (ab) know.
package apachebench

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/load"
)

// A Block is what ab would say at the end of one run.
type Block struct {
	Software, Hostname string
	Port               string // empty = not known
	Path               string
	Length             float64 // bytes of the document; NaN = not known
	Concurrency        string
	Elapsed            time.Duration
	Timely             float64 // good requests, those that were whole before Elapsed was over
	Failed             float64 // requests
	Connect            float64 // of the failed ones, by kind; these add up, or some are not known
	Receive            float64
	WrongLength        float64
	Exceptions         float64
	Status             float64
	KeepAlive          bool
	Transferred        float64 // bytes of the timely ones

	// How times were spread; nil if that is not known.
	Connecting, Processing, Waiting, Total *load.Histogram
}

// Write prints it. Times are in milliseconds as ab has them, with as many digits
// as are known.
func (b *Block) Write(w io.Writer) error {
	var text strings.Builder
	b.head(&text)
	b.rates(&text)
	b.times(&text)
	b.percentages(&text)
	_, err := io.WriteString(w, text.String())
	return err
}

func line(w io.Writer, name, format string, values ...any) {
	fmt.Fprintf(w, "%-24s%s\n", name+":", fmt.Sprintf(format, values...))
}

func (b *Block) head(w io.Writer) {
	line(w, "Server Software", "%s", b.Software)
	line(w, "Server Hostname", "%s", b.Hostname)
	if b.Port != "" {
		line(w, "Server Port", "%s", b.Port)
	}
	fmt.Fprintln(w)
	line(w, "Document Path", "%s", b.Path)
	if b.knowsLength() {
		line(w, "Document Length", "%.0f bytes", b.Length)
	}
	fmt.Fprintln(w)
}

func (b *Block) knowsLength() bool { return !math.IsNaN(b.Length) }

func (b *Block) rates(w io.Writer) {
	seconds := b.Elapsed.Seconds()
	line(w, "Concurrency Level", "%s", b.Concurrency)
	line(w, "Time taken for tests", "%.3f seconds", seconds)
	line(w, "Complete requests", "%.0f", b.Timely+b.Failed)
	b.failures(w)
	if b.KeepAlive {
		line(w, "Keep-Alive requests", "%.0f", b.Timely)
	}
	line(w, "Total transferred", "%.0f bytes", b.Transferred)
	if b.knowsLength() {
		line(w, "HTML transferred", "%.0f bytes", b.Timely*b.Length)
	}
	line(w, "Requests per second", "%.2f [#/sec] (mean)", b.Timely/seconds)
	if b.Total != nil {
		line(w, "Time per request", "%.3f [ms] (mean)", 1000*b.Total.Mean())
	}
	line(w, "Time per request", "%.3f [ms] (mean, across all concurrent requests)", 1000*seconds/max(1, b.Timely))
	line(w, "Transfer rate", "%.2f [Kbytes/sec] received", b.Transferred/1024/seconds)
}

func (b *Block) failures(w io.Writer) {
	kinds := b.Connect + b.Receive + b.WrongLength + b.Exceptions
	line(w, "Failed requests", "%.0f", b.Failed-b.Status)
	if kinds > 0 && kinds == b.Failed-b.Status {
		fmt.Fprintf(w, "   (Connect: %.0f, Receive: %.0f, Length: %.0f, Exceptions: %.0f)\n", b.Connect, b.Receive, b.WrongLength, b.Exceptions)
	}
	if b.Status > 0 {
		line(w, "Non-2xx responses", "%.0f", b.Status)
	}
}

func (b *Block) times(w io.Writer) {
	if b.Total == nil {
		return
	}
	fmt.Fprintf(w, "\nConnection Times (ms)\n%-12s%9s%9s%9s%9s%9s\n", "", "min", "mean", "[+/-sd]", "median", "max")
	for _, row := range []struct {
		name string
		h    *load.Histogram
	}{{"Connect", b.Connecting}, {"Processing", b.Processing}, {"Waiting", b.Waiting}, {"Total", b.Total}} {
		if h := row.h; h != nil {
			fmt.Fprintf(w, "%-12s%9.3f%9.3f%9.3f%9.3f%9.3f\n", row.name+":", 1000*h.Min(), 1000*h.Mean(), 1000*h.StdDev(), 1000*h.Percentile(50), 1000*h.Percentile(100))
		}
	}
}

func (b *Block) percentages(w io.Writer) {
	if b.Total == nil {
		return
	}
	fmt.Fprint(w, "\nPercentage of the requests served within a certain time (ms)\n")
	for _, p := range []float64{50, 66, 75, 80, 90, 95, 98, 99, 100} {
		longest := ""
		if p == 100 {
			longest = " (longest request)"
		}
		fmt.Fprintf(w, "%4.0f%%%10.3f%s\n", p, 1000*b.Total.Percentile(p), longest)
	}
}
