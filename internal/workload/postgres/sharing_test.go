package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/load/postgrestls"
)

// TestMain makes this program the clients of trials, as tare itself is.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && slices.Equal(os.Args[1:3], []string{"agent", "load"}) {
		runClient(os.Args[3:])
	}
	code := m.Run()
	if err := shared.remove(); err != nil {
		fmt.Fprintln(os.Stderr, "left behind:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// runClient runs a load as "tare agent load" does, until it is killed.
func runClient(words []string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	loads := []agent.Loader{{Name: postgrestls.Name, Run: postgrestls.Run}}
	if err := agent.RunLoads(loads, words, os.Stdout, fail); err != nil {
		fail(err)
	}
	time.Sleep(time.Hour)
}

// NewShared returns the workload whose runs share what takes long to make: the packed image, and the
// clusters, of which only the first run has one as users have it. All others get copies with one WAL
// segment in place of many.
func NewShared(tb testing.TB) bench.Workload {
	tb.Helper()
	lib := SharedLibrary(tb)
	return sharing{workload{func(string) *image.Library { return lib }}}
}

// A Plant is what is changed in a cell, behind its back.
type Plant func(*fixture) error

// NewPlanted returns the workload with something planted into each cell.
func NewPlanted(tb testing.TB, plant Plant) bench.Workload {
	tb.Helper()
	lib := SharedLibrary(tb)
	return planted{sharing{workload{func(string) *image.Library { return lib }}}, plant}
}

type planted struct {
	sharing
	plant Plant
}

// Setup implements bench.Fixturer.
func (w planted) Setup(ctx context.Context, t bench.Task) (bench.Fixture, error) {
	made, err := w.sharing.Setup(ctx, t)
	if err != nil {
		return nil, err
	}
	return made, w.plant(made.(*fixture))
}

// OtherMajor has the cluster say of itself that another major version has made it.
func OtherMajor(f *fixture) error {
	file := filepath.Join(f.template.data(), "PG_VERSION")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	other := bytes.Repeat([]byte("1"), len(text)) // of the same length
	other[len(other)-1] = '\n'
	// The file is a link to one that other tests use.
	return errors.Join(os.Remove(file), os.WriteFile(file, other, 0o644))
}

// OtherCluster has the cell expect another cluster than the one that is copied.
func OtherCluster(f *fixture) error { f.template.id++; return nil }

// LargerCluster has the cell expect a larger cluster than the one that is copied.
func LargerCluster(f *fixture) error { f.template.bytes++; return nil }

// OtherCPUs has the cell expect the server on the CPUs of the clients.
func OtherCPUs(f *fixture) error { f.cpus.server = f.cpus.client; return nil }

// OtherData has another cell, whose storage was named alike, have its data on another file system.
func OtherData(f *fixture) error { return f.attestData([]string{"xfs rw"}) }

// OtherUser has the server of another cell have another user.
func OtherUser(f *fixture) error {
	return f.compare("process", nil, facts{"open files": fmt.Sprint(openFiles), "user": "1"})
}

// OtherSetting has the server of another cell have a setting that nobody has asked for.
func OtherSetting(f *fixture) error {
	other := facts{"work_mem": "1024 (configuration file)"}
	return f.compare("settings "+f.program.image, facts{"fsync": "another"}, other)
}

// SharedLibrary returns the library of all tests.
func SharedLibrary(tb testing.TB) *image.Library {
	tb.Helper()
	lib, err := shared.library(imagetest.Agent(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return lib
}

// sharing is a workload that gives each run the clusters that runs before it have made.
type sharing struct{ workload }

// Setup implements bench.Fixturer.
func (w sharing) Setup(ctx context.Context, t bench.Task) (bench.Fixture, error) {
	s, err := bench.GetCommon(t.Common, templatesName, func() (*templates, error) { return shared.give(t.Dir) })
	if err != nil {
		return nil, err
	}
	f, err := w.workload.Setup(ctx, t)
	return f, errors.Join(err, shared.keep(s))
}

// shared is what the tests of this process have in common.
var shared sharedFiles

type sharedFiles struct {
	mu        sync.Mutex
	dir       string // empty = nothing is there yet
	lib       *image.Library
	templates map[templateKey]template
}

// open makes the directory. The mutex is held.
func (s *sharedFiles) open() (err error) {
	if s.dir == "" {
		s.templates = map[templateKey]template{}
		s.dir, err = os.MkdirTemp("", "tare-postgres-")
	}
	return err
}

func (s *sharedFiles) remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

func (s *sharedFiles) library(agent []byte) (*image.Library, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return nil, err
	}
	if s.lib == nil {
		// Containers may have a root of their own, and must get to their files.
		if err := os.Chmod(s.dir, 0o711); err != nil {
			return nil, err
		}
		s.lib = image.NewLibrary(filepath.Join(s.dir, "images"), image.WithAgent(agent))
	}
	return s.lib, nil
}

// give returns copies of all clusters below a run's directory.
func (s *sharedFiles) give(dir string) (*templates, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	given := &templates{all: map[templateKey]madeTemplate{}}
	for key, p := range s.templates {
		own, err := p.linkedBelow(dir)
		if err != nil {
			return nil, err
		}
		given.all[key] = madeTemplate{template: own}
	}
	return given, nil
}

// keep copies the clusters that a run has made.
func (s *sharedFiles) keep(made *templates) error {
	made.mu.Lock()
	all := maps.Clone(made.all)
	made.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return err
	}
	for key, one := range all {
		if _, ok := s.templates[key]; ok || one.err != nil {
			continue
		}
		kept, err := one.template.linkedBelow(s.dir)
		if err == nil {
			err = kept.trim()
		}
		if err != nil {
			return err
		}
		s.templates[key] = *kept
	}
	return nil
}

// linkedBelow returns the same cluster in a directory of its own below dir, with links to the same
// files: nobody writes to them.
func (p *template) linkedBelow(dir string) (*template, error) {
	to, err := os.MkdirTemp(dir, "postgres-")
	if err != nil {
		return nil, err
	}
	own := *p
	own.dir, own.closed = to, to
	if own.agent, err = filepath.Rel(p.dir, p.agent); err != nil {
		return nil, err
	}
	own.agent = filepath.Join(to, own.agent)
	return &own, filepath.WalkDir(p.dir, func(from string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(to, from[len(p.dir):])
		if !e.IsDir() {
			return os.Link(from, at)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if err := os.Mkdir(at, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return os.Chmod(at, info.Mode().Perm())
	})
}

// trim removes the WAL segments that are there for later use: the first one has the last checkpoint.
func (p *template) trim() error {
	segments, err := filepath.Glob(filepath.Join(p.data(), "pg_wal", "0*"))
	if err != nil {
		return err
	}
	slices.Sort(segments)
	for _, name := range segments[min(1, len(segments)):] {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		p.bytes -= info.Size()
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}
