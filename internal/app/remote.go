package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tare-bench/tare/internal/bench"
	far "github.com/tare-bench/tare/internal/engine/remote"
	"github.com/tare-bench/tare/internal/remote"
	"github.com/tare-bench/tare/internal/remote/peer"
)

// RemoteDriver is the driver of engines of another machine.
const RemoteDriver = "remote"

// connections are the connections of an App to other machines.
type connections struct {
	config Config

	mu  sync.Mutex
	all map[string]*far.Link
}

func newConnections(c Config) *connections {
	return &connections{config: c, all: map[string]*far.Link{}}
}

// to returns the link to a machine, one for all of its engines.
func (l *connections) to(address string) *far.Link {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[address] == nil {
		l.all[address] = far.NewLink(func(ctx context.Context) (*peer.Session, error) {
			return l.config.start(ctx, address, remote.Role, "serve-"+strings.ToLower(rand.Text()[:8]))
		})
	}
	return l.all[address]
}

// start starts tare on another machine, in a role and in a private directory of a name.
func (c Config) start(ctx context.Context, host, role, dir string) (*peer.Session, error) {
	if host == "" {
		return nil, &Problem{Kind: NoAddress, Err: errors.New("an engine on another machine needs a host")}
	}
	if err := peer.CheckHost(host); err != nil {
		return nil, &Problem{Kind: BadHost, Err: err}
	}
	t := peer.Target{Host: host, SSH: c.SSH, Version: c.Version, Role: role, Dir: dir}
	if c.Said != nil {
		t.Said = func(line string) { c.Said(host, line) }
	}
	return peer.Start(ctx, t)
}

// close ends the sessions; the servers remove what is left of them. The error names the machines where they may not
// have done so.
func (l *connections) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, link := range l.all {
		errs = append(errs, link.Close())
	}
	return errors.Join(errs...)
}

// instancesAt lists the engines that a plan can name: those of this machine, or
// of the one at an address, and those that are declared.
func (a *App) instancesAt(ctx context.Context, address string, declared []Instance) ([]Instance, error) {
	if address == "" {
		return WithDeclared(Builtin(), declared), nil
	}
	there, err := a.connections.to(address).Machine(ctx)
	if err != nil {
		return nil, err
	}
	if declared, err = onRemote(address, declared); err != nil {
		return nil, err
	}
	return WithDeclared(remoteInstances(address, there.Engines), declared), nil
}

// remoteInstances are the engines that another machine offers, and the built-in
// names that it does not, for it to say so.
func remoteInstances(address string, offered []string) []Instance {
	all := Names(Builtin())
	for _, name := range offered {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	out := make([]Instance, len(all))
	for i, name := range all {
		out[i] = Instance{Name: name, Driver: RemoteDriver, Options: map[string]string{"at": address, "engine": name}}
	}
	return out
}

// onRemote takes declared engines to another machine. Their options would be
// about this one.
func onRemote(address string, declared []Instance) ([]Instance, error) {
	// --engine names some of the built-in engines with their options.
	declared = slices.DeleteFunc(slices.Clone(declared), isBuiltIn)
	for i, d := range declared {
		switch {
		case d.Driver != RemoteDriver:
			return nil, &Problem{
				Kind: DeclaredHere, Names: []string{address},
				Err: fmt.Errorf("engine %s is declared for this machine, but --remote uses the engines of %s", d.Name, address),
			}
		case d.Options["at"] == "":
			declared[i].Options = maps.Clone(d.Options)
			if declared[i].Options == nil {
				declared[i].Options = map[string]string{}
			}
			declared[i].Options["at"] = address
		}
	}
	return declared, nil
}

// remoteWarnings are what disturbs measurements on the other machines of a plan.
func (a *App) remoteWarnings(ctx context.Context, p *Planned) []bench.Warning {
	var out []bench.Warning
	var asked []string
	for _, e := range p.Used() {
		at := e.Options["at"]
		if e.Driver != RemoteDriver || slices.Contains(asked, at) {
			continue
		}
		asked = append(asked, at)
		there, err := a.connections.to(at).Machine(ctx)
		if err != nil {
			continue // it has answered a moment ago: its trials will tell
		}
		for _, w := range there.Warnings {
			out = append(out, bench.Warning{Code: w.Code, Text: there.Host.Hostname + ": " + w.Text, Hint: w.Hint})
		}
	}
	return out
}
