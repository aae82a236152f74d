package disk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	theirs "github.com/tare-bench/tare/internal/foreign/fio"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/disk"
)

var errFIO = errors.New("tare cannot read the output of fio: it needs fio 3")

// parseFIO turns the output of fio into a report like the load's.
func parseFIO(text []byte, plan disk.Plan) (*load.Report, error) {
	// Messages may come first.
	if i := bytes.Index(text, []byte("\n{")); i >= 0 && text[0] != '{' {
		text = text[i+1:]
	}
	var out theirs.Output
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("%w: %w", errFIO, err)
	}
	if major, _, _ := strings.Cut(strings.TrimPrefix(out.Version, "fio-"), "."); major != "3" {
		return nil, fmt.Errorf("%w; this is %.40q", errFIO, out.Version)
	}
	report := load.NewReport(disk.Name)
	for _, p := range plan.Patterns {
		if err := pattern(&out, report, p, plan.BlockOf(p)); err != nil {
			return nil, fmt.Errorf("fio: %s: %w", p.Name, err)
		}
	}
	return report, nil
}

// pattern adds one pattern's job to the report.
func pattern(o *theirs.Output, r *load.Report, p disk.Pattern, block int) error {
	job, err := jobOf(o, p.Name)
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
	h, err := latency.Histogram()
	if err != nil {
		return fmt.Errorf("%w: %w", errFIO, err)
	}
	if side.IOPS <= 0 || side.IOPS > theirs.MaxCount {
		return fmt.Errorf("%w: %v requests per second", errFIO, side.IOPS)
	}
	return disk.Record(r, p, side.IOPS, block, h)
}

// jobOf is the job of a name.
func jobOf(o *theirs.Output, name string) (*theirs.Job, error) {
	var found *theirs.Job
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
