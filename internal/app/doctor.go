package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/host"
)

// watchTime is how long doctor looks for what only shows over time.
const watchTime = time.Second

// A Diagnosis says which engines of a machine can be used, and what disturbs
// measurements there.
type Diagnosis struct {
	Host     bench.HostFacts `json:"host"`
	Engines  []EngineState   `json:"engines"`
	Findings []host.Finding  `json:"findings"`
	DeadRuns []string        `json:"dead_runs"`
	Remote   string          `json:"remote,omitempty"` // how ssh calls the machine, where it is another one
	// NotStartedWhy is why engines were only asked, and started no container.
	NotStartedWhy string `json:"untried,omitempty"`
}

// EngineState says whether an engine can be used.
type EngineState struct {
	Name   string            `json:"name"`
	Usable bool              `json:"usable"`
	Known  bool              `json:"sure"` // false where it could not be found out
	Reason string            `json:"why,omitempty"`
	Info   *bench.EngineInfo `json:"info,omitempty"`
}

// Diagnose starts a container with every engine of this machine, removes it, and looks
// for what disturbs measurements. The App needs a state directory. The Diagnosis is there
// beside an error, too, where something could not be removed.
func (a *App) Diagnose(ctx context.Context) (*Diagnosis, error) {
	d := &Diagnosis{Host: host.Facts(fsRoot)}
	left := a.tryEngines(ctx, d)
	if d.Engines == nil {
		return nil, left
	}
	d.Findings = host.Examine(ctx, host.Examination{
		Root: fsRoot, Facts: d.Host, Dirs: []string{existing(a.state)}, Watch: watchTime,
	})
	d.Findings = append(d.Findings, syscallFinding(), timelineFinding())
	dead, err := a.DeadRuns()
	d.DeadRuns = append([]string{}, dead...) // never null as JSON
	return d, errors.Join(left, err)
}

// tryEngines asks every engine what it is, and starts a container with each that
// answers: one that answers may still lack what it takes, such as the image of pods.
// What that makes belongs to a run of its own, so that it is found if this process dies.
func (a *App) tryEngines(ctx context.Context, d *Diagnosis) (err error) {
	made := []string{filepath.Join(a.state, "runs"), a.state}
	for len(made) > 0 && existing(made[len(made)-1]) == made[len(made)-1] {
		made = made[:len(made)-1]
	}
	id := newRunID(a.config.Now())
	dir, err := a.newRunDir(id, Builtin())
	if err != nil {
		d.NotStartedWhy = err.Error()
		all, err := a.runSite("doctor").Probe(ctx, Builtin())
		d.Engines = engineStates(all)
		return err
	}
	engines := map[string]bench.Engine{}
	defer func() {
		if left := CloseEngines(ctx, engines); left != nil {
			err = errors.Join(err, leftBehind(left), dir.close())
			return
		}
		err = errors.Join(err, leftBehind(dir.remove()))
		for _, directory := range made {
			_ = os.Remove(directory) // another tare may have put something there
		}
	}()
	all, err := a.runSite(id).Probe(ctx, Builtin())
	if err != nil {
		return err
	}
	for i, e := range all {
		if e.Err == nil { // the others have made nothing, and may not be closed by this user
			engines[e.Name] = e.Engine
			all[i].Err = tryContainer(ctx, e.Engine)
		}
	}
	d.Engines = engineStates(all)
	return ctx.Err()
}

// tryTime is how long a container may take to start and to end. The first one of an
// engine waits for its image.
const tryTime = 30 * time.Second

// tryContainer runs a container that ends at once, and removes it.
func tryContainer(ctx context.Context, e bench.Engine) (err error) {
	limited, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	spec := bench.Spec{Image: image.Agent, Argv: []string{agent.Path, "exit", "0"}}
	if err := e.Prepare(limited, spec); err != nil {
		return err
	}
	c, err := e.Create(limited, spec)
	if err != nil {
		return err
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryTime)
		defer cancel()
		err = errors.Join(err, bench.Dispose(clean, e, c))
	}()
	if err := c.Start(limited); err != nil {
		return err
	}
	exit, err := c.Wait(limited)
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("a test container should have exited with 0, but exited with %d", exit.Code)
	}
	return err
}

// DiagnoseAt asks the machine at an address about itself.
func (a *App) DiagnoseAt(ctx context.Context, address string) (*Diagnosis, error) {
	there, err := a.connections.to(address).Machine(ctx)
	if err != nil {
		return nil, err
	}
	d := &Diagnosis{Host: there.Host, Remote: address, Findings: []host.Finding{}, DeadRuns: []string{}}
	for _, w := range there.Warnings {
		d.Findings = append(d.Findings, host.Finding{
			Name: strings.TrimPrefix(w.Code, "host-"), Status: host.Disturb, Text: w.Text, Hint: w.Hint,
		})
	}
	lent := slices.DeleteFunc(remoteInstances(address, there.Engines), func(i Instance) bool {
		return !slices.Contains(there.Engines, i.Name)
	})
	all, err := a.EngineSite("doctor", "").Probe(ctx, lent)
	d.Engines = engineStates(all)
	return d, err
}

func engineStates(all []Probed) (out []EngineState) {
	for _, e := range all {
		s := EngineState{Name: e.Name, Usable: e.Err == nil, Known: e.Err == nil || errors.Is(e.Err, bench.ErrUnsupported)}
		if e.Err == nil {
			s.Info = &e.Info
		} else {
			s.Reason = e.Err.Error()
		}
		out = append(out, s)
	}
	return out
}
