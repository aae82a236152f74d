package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Remove removes the directory with its contents. It keeps a named directory, which RemoveNamed and
// Close remove. Plain processes that still work in the directory are killed, and their shared
// memory is removed. It may be called twice.
func (d *Dir) Remove() error {
	if d == nil {
		return nil
	}
	if d.name != "" {
		return d.vacate()
	}
	return d.remove()
}

// RemoveNamed removes the directory that spec names, if it exists.
func (k *Manager) RemoveNamed(spec bench.Spec) error {
	if err := Check(spec); err != nil || spec.DataName == "" || spec.Storage != "bind" {
		return err
	}
	return k.at(spec, spec.DataName).remove()
}

func (d *Dir) remove() error {
	if err := d.vacate(); err != nil {
		return err
	}
	if err := RemoveTree(d.whole); err != nil {
		return err
	}
	return removeFile(d.record)
}

// RemoveTree deletes a directory. It refuses if something is mounted below it, because it would
// delete the files of that mount.
func RemoveTree(dir string) error {
	points, err := MountsBelow(dir)
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("remove %s: a file system is mounted at %s: unmount it and run 'tare clean'", dir, points[0])
	}
	return os.RemoveAll(dir)
}

// MountsBelow lists the mount points at or below a directory, in the order of mounting.
func MountsBelow(dir string) (points []string, err error) {
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir)) // the kernel names mounts by their real paths
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	dir = filepath.Join(parent, filepath.Base(dir))
	mounts, err := proc.Mounts("/", 0)
	for _, m := range mounts {
		if m.Point == dir || strings.HasPrefix(m.Point, dir+"/") {
			points = append(points, m.Point)
		}
	}
	return points, err
}

// removeFile removes a file, a link or an empty directory, if it exists.
func removeFile(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Close removes this engine's directories in this run. Their containers must have been removed.
func (k *Manager) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.prepared = nil
	all, err := k.fromRecords(k.records, k.run)
	for _, d := range all {
		err = errors.Join(err, d.Remove())
	}
	if err != nil {
		return err
	}
	return removeFile(k.records)
}

// fromRecords lists the directories of this engine in a run by their records, without their Path. It
// ignores other files.
func (k *Manager) fromRecords(records, run string) ([]*Dir, error) {
	entries, err := os.ReadDir(records)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var found []*Dir
	for _, e := range entries {
		d := &Dir{record: filepath.Join(records, e.Name()), forPlain: k.forPlain}
		if number, err := strconv.Atoi(e.Name()); (err != nil || strconv.Itoa(number) != e.Name()) && !isName(e.Name()) {
			continue
		}
		switch target, err := os.Readlink(d.record); {
		case err != nil && e.IsDir():
			d.whole = d.record
		case err == nil && filepath.IsAbs(target) && filepath.Base(target) == nameOf(run, k.engine, e.Name()):
			d.whole = filepath.Clean(target)
		default:
			continue
		}
		found = append(found, d)
	}
	return found, err
}

// Kind is the Leftover.Kind of a dead run's directories.
const Kind = "data"

// Leftovers lists the directories that dead runs left with an engine of this name. A leftover's ID
// is its path. It looks beside this run's directory, where those of all runs are.
func (k *Manager) Leftovers(dead func(run string) bool) ([]bench.Leftover, error) {
	entries, err := os.ReadDir(k.runs())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var left []bench.Leftover
	for _, e := range entries {
		run := e.Name()
		if !e.IsDir() || bench.ValidRunID(run) != nil || !dead(run) {
			continue
		}
		all, runErr := k.fromRecords(k.recordsOf(run), run)
		err = errors.Join(err, runErr)
		for _, d := range all {
			left = append(left, bench.Leftover{Run: run, Engine: k.engine, Kind: Kind, ID: d.whole})
		}
	}
	return left, err
}

// IsNamed reports whether a directory outside the run's, which Leftovers listed, is the one of a data name.
func (k *Manager) IsNamed(l bench.Leftover, name string) bool {
	return filepath.Base(l.ID) == nameOf(l.Run, k.engine, name)
}

// RemoveLeftover removes a directory that Leftovers listed. It is not an error if it no longer
// exists.
func (k *Manager) RemoveLeftover(l bench.Leftover) error {
	if err := bench.ValidRunID(l.Run); err != nil {
		return err
	}
	if l.Engine != k.engine || l.Kind != Kind {
		return fmt.Errorf("%s: not a data directory of this engine: %s %q", k.engine, l.Kind, l.ID)
	}
	records := k.recordsOf(l.Run)
	all, err := k.fromRecords(records, l.Run)
	for _, d := range all {
		if d.whole == l.ID {
			err = errors.Join(err, d.Remove())
		}
	}
	if gone := removeFile(records); !errors.Is(gone, unix.ENOTEMPTY) { // the last record's directory
		err = errors.Join(err, gone)
	}
	return err
}

func (k *Manager) runs() string { return filepath.Dir(filepath.Dir(k.records)) }

func (k *Manager) recordsOf(run string) string {
	return recordsIn(filepath.Join(k.runs(), run), k.engine)
}
