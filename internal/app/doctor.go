package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/host"
)

// watchTime is how long doctor looks for what only shows over time.
const watchTime = time.Second

// A Diagnosis says which engines of a machine can be used, and what disturbs
// measurements there.
type Diagnosis struct {
	Host     bench.HostFacts `json:"host"`
	Engines  []EngineState   `json:"engines"`
	Findings []host.Finding  `json:"findings"`
	Dead     []string        `json:"dead_runs"`
	Remote   string          `json:"remote,omitempty"` // the address of the machine, where it is another one
}

// EngineState says whether an engine can be used.
type EngineState struct {
	Name   string            `json:"name"`
	Usable bool              `json:"usable"`
	Sure   bool              `json:"sure"` // false where it could not be found out
	Why    string            `json:"why,omitempty"`
	Info   *bench.EngineInfo `json:"info,omitempty"`
}

// Diagnose looks at this machine. It changes nothing. The App needs a state directory.
func (a *App) Diagnose(ctx context.Context) (*Diagnosis, error) {
	d := &Diagnosis{Host: host.Facts(fsRoot)}
	all, err := a.siteOf("doctor").Probe(ctx, Builtin())
	if err != nil {
		return nil, err
	}
	d.Engines = statesOf(all)
	d.Findings = host.Examine(ctx, host.Examination{
		Root: fsRoot, Facts: d.Host, Dirs: []string{existing(a.state)}, Watch: watchTime,
	})
	d.Findings = append(d.Findings, callsFinding())
	dead, err := a.DeadRuns()
	d.Dead = append([]string{}, dead...) // never null as JSON
	return d, err
}

// DiagnoseAt says what the machine at an address tells about itself.
func (a *App) DiagnoseAt(ctx context.Context, address string) (*Diagnosis, error) {
	there, err := a.links.to(address).Machine(ctx)
	if err != nil {
		return nil, err
	}
	d := &Diagnosis{Host: there.Host, Remote: address, Findings: []host.Finding{}, Dead: []string{}}
	for _, w := range there.Warnings {
		d.Findings = append(d.Findings, host.Finding{
			Name: strings.TrimPrefix(w.Code, "host-"), Status: host.Disturb, Text: w.Text, Hint: w.Hint,
		})
	}
	lent := slices.DeleteFunc(remoteInstances(address, there.Engines), func(i Instance) bool {
		return !slices.Contains(there.Engines, i.Name)
	})
	all, err := a.Site("doctor", "").Probe(ctx, lent)
	d.Engines = statesOf(all)
	return d, err
}

func statesOf(all []Probed) (out []EngineState) {
	for _, e := range all {
		s := EngineState{Name: e.Name, Usable: e.Err == nil, Sure: e.Err == nil || errors.Is(e.Err, bench.ErrUnsupported)}
		if e.Err == nil {
			s.Info = &e.Info
		} else {
			s.Why = e.Err.Error()
		}
		out = append(out, s)
	}
	return out
}
