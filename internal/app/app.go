// Package app is tare without a command line: it makes plans, opens engines and
// stores, runs what was planned, says how a run ended, goes on with one, and removes
// what a killed one left. It reads no flags and no environment, and prints nothing:
// what happens goes to an Observer, and what goes wrong is an error, a Problem where
// the user can do something about it.
//
// It is the one place that lists every driver, workload, store and format.
package app

import (
	"cmp"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
)

// fsRoot is where the kernel's files are.
const fsRoot = "/"

// A Config says who uses an App. Every field may be left out.
type Config struct {
	Version  string           // of tare: runs are stamped with it, and other machines must have the same
	SSH      string           // the program that connects to other machines; empty = ssh in PATH
	Now      func() time.Time // the wall clock; nil = time.Now
	Observer Observer         // nil = nobody
	Stopped  func() int64     // how often this process went on after it was stopped; nil = never
	// Said is told each line that another machine says beside its answers, such as its log; nil = nobody. It may be
	// called from any goroutine, and the line is whatever that machine says.
	Said func(host, line string)
}

// An App is tare on this machine. Several goroutines may use it, one run each: runs at
// the same time disturb one another.
type App struct {
	config      Config
	state       string // for temporary data of runs; empty if nothing can be run
	connections *connections
}

// errNoState is the error of an App that is asked to run something before At.
var errNoState = errors.New("no state directory is set")

// New returns an App that can plan and read, but not run: see At. It must be closed.
func New(c Config) *App {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Observer == nil {
		c.Observer = NopObserver{}
	}
	c.Version = cmp.Or(c.Version, "unknown")
	return &App{config: c, connections: newConnections(c)}
}

// WithState returns the same App with a state directory, so that it can run: each run has a
// directory of its own in it, below "runs". The directory need not exist. It must be on
// a file system that can be an overlay's upper layer.
func (a *App) WithState(state string) (*App, error) {
	state, err := filepath.Abs(state)
	if err != nil {
		return nil, err
	}
	if state, err = realPath(state); err != nil {
		return nil, err
	}
	at := *a
	at.state = state
	return &at, nil
}

// Close ends the sessions with other machines. The error names those on which tare may have left something.
func (a *App) Close() error { return a.connections.close() }

// An Observer is told what happens while an App measures or cleans up. It is called by
// one goroutine, and never while something is timed.
type Observer interface {
	// RunBegins comes before the first trial of a sitting.
	RunBegins(s Session)
	// OnEvent is told the events of a run.
	OnEvent(e run.Event)
	// RunOver comes after the last trial: the engines are closed next.
	RunOver()
	// Removed is told what a trial that failed had left, and what is removed now.
	Removed(l bench.Leftover)
	// EngineUnreachable is told of an engine that cannot be asked what runs left behind.
	EngineUnreachable(engine string, why error)
	// NotEnded is told of hosts on which tare has not ended.
	NotEnded(why error)
}

// NopObserver is an Observer that does nothing. Others embed it.
type NopObserver struct{}

var _ Observer = NopObserver{}

// RunBegins does nothing.
func (NopObserver) RunBegins(Session) {}

// OnEvent does nothing.
func (NopObserver) OnEvent(run.Event) {}

// RunOver does nothing.
func (NopObserver) RunOver() {}

// Removed does nothing.
func (NopObserver) Removed(bench.Leftover) {}

// EngineUnreachable does nothing.
func (NopObserver) EngineUnreachable(string, error) {}

// NotEnded does nothing.
func (NopObserver) NotEnded(error) {}

// newRunID makes an ID that sorts by time and does not collide.
func newRunID(now time.Time) string {
	return strings.ToLower(now.UTC().Format("20060102-150405-") + rand.Text()[:4])
}

// realPath resolves the links in a path that need not exist as a whole. The
// kernel names mounts by their real paths, and OCI runtimes refuse others.
func realPath(path string) (string, error) {
	base := existing(path)
	real, err := filepath.EvalSymlinks(base)
	if err != nil {
		return "", err
	}
	return filepath.Join(real, strings.TrimPrefix(path, base)), nil
}

// existing returns the nearest directory above path that exists.
func existing(path string) string {
	for path != "/" {
		if _, err := os.Stat(path); err == nil {
			return path
		}
		path = filepath.Dir(path)
	}
	return path
}
