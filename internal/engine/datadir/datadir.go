// Package datadir makes directories on the host in which containers and plain processes keep their
// data. They are in the run's own directory, or in a directory of the user's choice. In the second
// case a record in the run's directory points to them, so that they are found after a crash.
package datadir

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/userns"
)

// A Manager makes the directories of one engine in one run. Its methods may be
// called concurrently.
type Manager struct {
	run, engine string
	records     string // the directory with a record for each
	forPlain    bool   // plain processes keep their data there

	mu       sync.Mutex
	number   int    // of the last directory
	prepared []*Dir // made, not taken yet
}

// New returns the Manager of an engine in a run. dir is the run's own directory; its last element is
// the run's ID. New touches nothing.
func New(run, engine, dir string) *Manager {
	return &Manager{run: run, engine: engine, records: recordsIn(dir, engine)}
}

// NewPlain is New for plain processes. They use the host's paths, and often run as a user of their
// own, so every user may pass to their directories. Files that root made in a container stay closed
// to other users.
func NewPlain(run, engine, dir string) *Manager {
	k := New(run, engine, dir)
	k.forPlain = true
	return k
}

// recordsIn is the directory of an engine's records in the directory of a run.
func recordsIn(dir, engine string) string { return filepath.Join(dir, recordsPrefix+engine) }

const recordsPrefix = "data-"

// Inside is the name of the open directory in a closed one outside the run's directory.
const Inside = "data"

// nameOf is the name of a data directory outside the run's directory.
func nameOf(run, engine, number string) string {
	return fmt.Sprintf("tare-%s-%s-%s", run, engine, number)
}

// A Dir is the data directory of one container, or a named one that several containers use. A nil
// Dir means no directory.
type Dir struct {
	Path   string // absolute
	whole  string // what is made and removed: Path, or a closed directory around it
	parent string // the user's choice; empty for the run's own directory
	record string // whole itself or a link to it
	name   string // of a directory that outlives its containers; empty = removed with its container
	// forPlain: plain processes work in it, so what belongs to it can be elsewhere on the host.
	forPlain bool
}

// At is the directory's path; empty if there is no directory.
func (d *Dir) At() string {
	if d == nil {
		return ""
	}
	return d.Path
}

// Fits reports whether the directory suits a container of spec: it is in the requested place, or it
// is nil and spec needs none.
func (d *Dir) Fits(spec bench.Spec) bool {
	if d == nil || spec.Storage != "bind" {
		return d == nil && spec.Storage != "bind"
	}
	return d.parent == spec.Data && d.name == spec.DataName
}

// Reserve chooses the directory for a container of spec, but makes nothing. Each call chooses a new
// one, unless spec has a data name.
func (k *Manager) Reserve(spec bench.Spec) (*Dir, error) {
	if spec.Data != "" && !filepath.IsAbs(spec.Data) {
		return nil, fmt.Errorf("%w: data %q: use an absolute path", bench.ErrUnsupported, spec.Data)
	}
	if spec.DataName != "" {
		d := k.at(spec, spec.DataName)
		d.name = spec.DataName
		return d, Check(spec)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		k.number++
		d := k.at(spec, strconv.Itoa(k.number))
		// A run that is resumed after a crash can have leftovers.
		if _, err := os.Lstat(d.record); errors.Is(err, fs.ErrNotExist) {
			return d, nil
		} else if err != nil {
			return nil, err
		}
	}
}

// at is the directory whose record has this name.
func (k *Manager) at(spec bench.Spec, name string) *Dir {
	d := &Dir{parent: spec.Data, record: filepath.Join(k.records, name), forPlain: k.forPlain}
	d.whole, d.Path = d.record, d.record
	if spec.Data != "" {
		d.whole = filepath.Join(spec.Data, nameOf(k.run, k.engine, name))
		d.Path = filepath.Join(d.whole, Inside)
	}
	return d
}

// Make makes a directory that was reserved. It is empty, and every user who gets there may write to
// it. A named directory is made only once.
func (k *Manager) Make(d *Dir) error {
	if d.name != "" {
		k.mu.Lock()
		defer k.mu.Unlock()
		there, err := d.exists()
		if there || err != nil {
			return err
		}
	}
	if err := os.MkdirAll(k.records, 0o700); err != nil {
		return err
	}
	if err := k.close(k.records); err != nil {
		return err
	}
	if d.whole == d.record {
		return makeOpen(d.Path)
	}
	// The link comes first, so that a directory without a record never exists.
	if err := os.Symlink(d.whole, d.record); err != nil {
		return err
	}
	if err := k.makeInside(d); err != nil {
		return errors.Join(fmt.Errorf("make a directory for data: %w", err), removeFile(d.record))
	}
	return nil
}

// close keeps other users out of a directory. For plain processes, they may pass but not list. This
// does not depend on the umask.
func (k *Manager) close(dir string) error {
	if k.forPlain {
		return os.Chmod(dir, 0o711)
	}
	return nil
}

// makeInside makes the directory inside a closed one.
func (k *Manager) makeInside(d *Dir) error {
	if err := os.Mkdir(d.whole, 0o700); err != nil {
		return err
	}
	if err := errors.Join(k.close(d.whole), makeOpen(d.Path)); err != nil {
		return errors.Join(err, os.RemoveAll(d.whole))
	}
	return nil
}

// AllowUserNS lets the root of a user namespace pass to a directory, because some runtimes look it up
// as that root. See userns.AllowTraverse.
func (d *Dir) AllowUserNS() error { return userns.AllowTraverse(filepath.Dir(d.Path)) }

// exists reports whether the directory was already made in the same place.
func (d *Dir) exists() (bool, error) {
	at, err := filepath.EvalSymlinks(d.record)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	want, err := filepath.EvalSymlinks(d.whole)
	if err == nil && at != want {
		err = fmt.Errorf("data %q are already in %s and cannot also be in %s: use another name", d.name, at, want)
	}
	return err == nil, err
}

// makeOpen makes a directory in which all users can have files of their own. A narrower mode is not
// enough: only the engine knows which user of the host the program in the container is (the image's
// USER, a user namespace, a daemon without root), and the program must list the directory as well as
// write to it. The directory around it is closed, so other users do not get here, except for plain
// processes. There the sticky bit keeps them from removing or renaming what is not theirs.
func makeOpen(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o777|fs.ModeSticky); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// Prepare makes a directory ahead of the container that will use it. It makes none if spec needs none
// or if a prepared directory fits.
func (k *Manager) Prepare(spec bench.Spec) error {
	if spec.Storage != "bind" {
		return nil
	}
	d, err := k.Take(spec)
	if err != nil || d.name != "" {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.prepared = append(k.prepared, d)
	return nil
}

// Take returns a directory for a container of spec, if possible a prepared one. It is nil unless the
// Storage is "bind".
func (k *Manager) Take(spec bench.Spec) (*Dir, error) {
	if spec.Storage != "bind" {
		return nil, nil
	}
	if spec.DataName == "" {
		if d := k.takePrepared(spec.Data); d != nil {
			return d, nil
		}
	}
	d, err := k.Reserve(spec)
	if err != nil {
		return nil, err
	}
	return d, k.Make(d)
}

// takePrepared removes a prepared directory below parent from the list, and returns it.
func (k *Manager) takePrepared(parent string) *Dir {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, d := range k.prepared {
		if d.parent == parent {
			k.prepared = append(k.prepared[:i], k.prepared[i+1:]...)
			return d
		}
	}
	return nil
}

// Mounts returns the mounts of a container of spec: the requested ones, and the one for its data if
// that is on the host's directory d or on a tmpfs. d is the result of Take.
func Mounts(spec bench.Spec, d *Dir) []bench.Mount {
	all := spec.Mounts[:len(spec.Mounts):len(spec.Mounts)]
	switch {
	case d != nil:
		all = append(all, bench.Mount{Type: "bind", Source: d.Path, Target: bench.DataDir})
	case spec.Storage == "tmpfs":
		all = append(all, bench.Mount{Type: "tmpfs", Target: bench.DataDir})
	}
	return all
}

// Check refuses what no engine can do with a Spec's data: keep them in a read-only layer, or in a
// directory without an absolute path, or keep named data on storage that is removed with the
// container. The error wraps bench.ErrUnsupported.
func Check(spec bench.Spec) error {
	switch {
	case spec.Storage == "layer" && spec.Security.ReadOnly:
		return fmt.Errorf("%w: storage layer is not writable with read_only: use bind, tmpfs or volume",
			bench.ErrUnsupported)
	case spec.Data != "" && !filepath.IsAbs(spec.Data):
		return fmt.Errorf("%w: data %q: use an absolute path", bench.ErrUnsupported, spec.Data)
	case spec.DataName != "" && spec.Storage != "bind" && spec.Storage != "volume":
		return fmt.Errorf("%w: storage %q is removed with the container, but these data must outlive it: use bind or "+
			"volume",
			bench.ErrUnsupported, spec.Storage)
	case spec.DataName != "" && !isName(spec.DataName):
		return fmt.Errorf("%w: data name %.40q: use lower-case letters, digits and -, a letter first, at most %d "+
			"characters",
			bench.ErrUnsupported, spec.DataName, maxName)
	}
	return nil
}

// CheckMounts refuses mounts of other types. The error wraps bench.ErrUnsupported.
func CheckMounts(spec bench.Spec, types ...string) error {
	for _, m := range spec.Mounts {
		if !slices.Contains(types, m.Type) {
			return fmt.Errorf("%w: mount of type %q at %s: use %s", bench.ErrUnsupported, m.Type, m.Target,
				strings.Join(types, " or "))
		}
	}
	return nil
}

// maxName is how long the name of data may be.
const maxName = 32

// isName reports whether name is a valid data name. A name never looks like a number, because
// unnamed directories have numbers.
func isName(name string) bool {
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

// Archive is a tar archive of bench.DataDir, writable for every user. It is for containers whose
// files can be reached only through their engine.
func Archive() ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(
		&tar.Header{Typeflag: tar.TypeDir, Name: bench.DataDir[1:] + "/", Mode: 0o1777, ModTime: time.Unix(0, 0)},
	)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// MakeIn makes bench.DataDir in an unpacked image, or in a layer over one, unless it exists. A link
// in the image cannot lead it to another place.
func MakeIn(root string) (err error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	name := bench.DataDir[1:]
	if err := dir.Mkdir(name, 0o700); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	return dir.Chmod(name, 0o777|fs.ModeSticky)
}
