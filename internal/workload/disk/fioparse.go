package disk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/disk"
)

var errFIO = errors.New("tare cannot read the output of fio: it needs fio 3")

// fioOutput is the part of fio's json+ that is used.
type fioOutput struct {
	Version string   `json:"fio version"`
	Jobs    []fioJob `json:"jobs"`
}

type fioJob struct {
	Name  string  `json:"jobname"`
	Error int     `json:"error"`
	Read  fioSide `json:"read"`
	Write fioSide `json:"write"`
	Sync  struct {
		Latency fioLatency `json:"lat_ns"`
	} `json:"sync"`
}

type fioSide struct {
	IOPS    float64    `json:"iops"`
	Latency fioLatency `json:"lat_ns"`
}

// fioLatency is a histogram: how many values there were, by value in nanoseconds.
type fioLatency struct {
	Bins map[string]int64 `json:"bins"`
}

// parseFIO turns the output of fio into a report like the load's.
func parseFIO(text []byte, plan disk.Plan) (*load.Report, error) {
	// Messages may come first.
	if i := bytes.Index(text, []byte("\n{")); i >= 0 && text[0] != '{' {
		text = text[i+1:]
	}
	var out fioOutput
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("%w: %w", errFIO, err)
	}
	if major, _, _ := strings.Cut(strings.TrimPrefix(out.Version, "fio-"), "."); major != "3" {
		return nil, fmt.Errorf("%w; this is %.40q", errFIO, out.Version)
	}
	report := load.NewReport(disk.Name)
	for _, p := range plan.Patterns {
		if err := out.pattern(report, p, plan.BlockOf(p)); err != nil {
			return nil, fmt.Errorf("fio: %s: %w", p.Name, err)
		}
	}
	return report, nil
}

// pattern adds one pattern's job to the report.
func (o *fioOutput) pattern(r *load.Report, p disk.Pattern, block int) error {
	job, err := o.job(p.Name)
	if err != nil {
		return err
	}
	side, latency := job.Read, job.Read.Latency
	if p.Write {
		side, latency = job.Write, job.Write.Latency
	}
	if p.Sync {
		latency = job.Sync.Latency
	}
	h, err := latency.histogram()
	if err != nil {
		return err
	}
	if side.IOPS <= 0 || side.IOPS > maxCount {
		return fmt.Errorf("%w: %v requests per second", errFIO, side.IOPS)
	}
	return disk.Record(r, p, side.IOPS, block, h)
}

func (o *fioOutput) job(name string) (*fioJob, error) {
	var found *fioJob
	for i := range o.Jobs {
		if o.Jobs[i].Name != name {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%w: two jobs have this name", errFIO)
		}
		found = &o.Jobs[i]
	}
	switch {
	case found == nil:
		return nil, fmt.Errorf("%w: no job has this name", errFIO)
	case found.Error != 0:
		return nil, fmt.Errorf("it ended with error %d", found.Error)
	}
	return found, nil
}

// maxCount is the largest plausible number of requests.
const maxCount = 1 << 40

func (l fioLatency) histogram() (*load.Histogram, error) {
	h := load.NewHistogram()
	for text, n := range l.Bins {
		ns, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ns < 0 || n < 0 || n > maxCount {
			return nil, fmt.Errorf("%w: %d latencies of %.40q ns", errFIO, n, text)
		}
		h.AddMany(time.Duration(ns), n)
	}
	return h, nil
}
