package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
)

// filterOptions are the flags that choose stored runs.
type filterOptions struct {
	experiment, host string
	engines, labels  []string
	since, before    string
}

// filterDocs says what they mean together.
const filterDocs = `Flags choose the runs that fit all of them. If a label is asked for with several
values, any of these will do. A time is a date, such as 2026-11-20 or
"2026-11-20 15:04", or how long ago it was, such as 7d.`

func (o *filterOptions) addFlags(a *invocation, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.experiment, "experiment", "", "runs of the experiment of this `name`")
	f.StringSliceVarP(&o.engines, "engine", "e", nil, "runs in which these engines took part: `names` with commas")
	f.StringArrayVar(&o.labels, "label", nil, "runs with this label: `KEY` or KEY=VALUE")
	f.StringVar(&o.host, "host", "", "runs of the host of this `name`")
	f.StringVar(&o.since, "since", "", "runs that began at this `time` or later")
	f.StringVar(&o.before, "before", "", "runs that began before this `time`")
	completeFlag(cmd, "experiment", a.completeStored(func(h *bench.Header) []string { return []string{h.Plan.Name} }))
	completeFlag(cmd, "host", a.completeStored(func(h *bench.Header) []string { return []string{h.Host.Hostname} }))
	completeFlag(cmd, "engine", a.completeEngines)
	completeFlag(cmd, "label", a.completeLabels)
}

// read turns flags into a filter.
func (o *filterOptions) read(now time.Time) (*app.Filter, error) {
	f := &app.Filter{Experiment: o.experiment, Host: o.host, Engines: o.engines}
	for _, text := range o.labels {
		key, value, _ := strings.Cut(text, "=")
		if key == "" {
			return nil, &usageError{fmt.Errorf("--label %q", text), "write KEY or KEY=VALUE"}
		}
		f.Labels = append(f.Labels, bench.Label{Key: key, Value: value})
	}
	for _, t := range []struct {
		flag, text string
		to         *time.Time
	}{{"since", o.since, &f.Since}, {"before", o.before, &f.Before}} {
		if t.text == "" {
			continue
		}
		var err error
		if *t.to, err = app.ParseTime(t.text, now); err != nil {
			const hint = "write a date, such as 2026-11-20, or how long ago it was, such as 7d or 36h"
			return nil, &usageError{fmt.Errorf("--%s: %w", t.flag, err), hint}
		}
	}
	return f, nil
}

// underWay reports whether a run is measured now.
func (a *invocation) underWay(h *bench.Header) bool {
	if h.Imported {
		return false
	}
	t, err := a.newApp()
	return err == nil && t.UnderWay(h.ID)
}
