// Package datadir makes the directories of the host in which containers and
// plain processes keep their data: in the run's own directory, or in another
// one of the user's choice, where a record in the run's directory leads to them
// after a crash.
package datadir

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/userns"
)

// A Keeper makes the directories of one engine in one run. Its methods may be
// called concurrently.
type Keeper struct {
	run, engine string
	records     string // the directory that has a record of each
	plain       bool   // plain processes keep their data there

	mu     sync.Mutex
	number int    // of the last one
	staged []*Dir // made and not taken yet
}

// New returns the keeper of an engine in a run, whose own directory is dir,
// named as the run is. It touches nothing.
func New(run, engine, dir string) *Keeper {
	return &Keeper{run: run, engine: engine, records: recordsIn(dir, engine)}
}

// NewPlain is New for plain processes. They have the host's paths, and what keeps
// data is often a user of its own: it is let through to its directory. Nobody else
// ever gets at what root made in a container.
func NewPlain(run, engine, dir string) *Keeper {
	k := New(run, engine, dir)
	k.plain = true
	return k
}

// recordsIn is where an engine has its records in the directory of a run.
func recordsIn(dir, engine string) string { return filepath.Join(dir, "data-"+engine) }

// nameOf is the name of a directory that lies outside of the run's.
func nameOf(run, engine, number string) string {
	return fmt.Sprintf("tare-%s-%s-%s", run, engine, number)
}

// A Dir is the directory of one container, or one that containers have by its name. A
// nil one is none.
type Dir struct {
	Path   string // absolute
	parent string // that was asked for; empty for the run's own
	record string // Path itself, or a link to it
	name   string // by which it outlives its containers; empty = it does not
}

// At is the directory's path, empty if there is none.
func (d *Dir) At() string {
	if d == nil {
		return ""
	}
	return d.Path
}

// Fits reports whether a container of spec can have the directory: in the place
// that it asks for, or none where it needs none.
func (d *Dir) Fits(spec bench.Spec) bool {
	if d == nil || spec.Storage != "bind" {
		return d == nil && spec.Storage != "bind"
	}
	return d.parent == spec.Data && d.name == spec.DataName
}

// Reserve names the directory of a container of spec, another one with each
// call unless spec has a name for it, and makes nothing.
func (k *Keeper) Reserve(spec bench.Spec) (*Dir, error) {
	if spec.Data != "" && !filepath.IsAbs(spec.Data) {
		return nil, fmt.Errorf("%w: data %q: the directory's path must be absolute", bench.ErrUnsupported, spec.Data)
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

// at is the directory with a record of that name.
func (k *Keeper) at(spec bench.Spec, name string) *Dir {
	d := &Dir{parent: spec.Data, record: filepath.Join(k.records, name)}
	d.Path = d.record
	if spec.Data != "" {
		d.Path = filepath.Join(spec.Data, nameOf(k.run, k.engine, name))
	}
	return d
}

// Make makes a directory that was reserved. It is empty, and every user may
// write to it. One with a name is made once.
func (k *Keeper) Make(d *Dir) error {
	if d.name != "" {
		k.mu.Lock()
		defer k.mu.Unlock()
		there, err := d.there()
		if there || err != nil {
			return err
		}
	}
	if err := os.MkdirAll(k.records, 0o700); err != nil {
		return err
	}
	if k.plain { // whatever the umask; nobody can look around
		if err := os.Chmod(k.records, 0o711); err != nil {
			return err
		}
	}
	if d.Path == d.record {
		return makeOpen(d.Path)
	}
	// First, so that at no instant there is a directory that nothing leads to.
	if err := os.Symlink(d.Path, d.record); err != nil {
		return err
	}
	if err := makeOpen(d.Path); err != nil {
		return errors.Join(fmt.Errorf("make a directory for data: %w", err), removeFile(d.record))
	}
	return nil
}

// Admit lets the root of a user namespace pass to the directories that lie in the run's own:
// some runtimes look them up as that root. See userns.Admit.
func (k *Keeper) Admit() error { return userns.Admit(k.records) }

// there reports whether the directory was made before, at the same place.
func (d *Dir) there() (bool, error) {
	at, err := filepath.EvalSymlinks(d.record)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	want, err := filepath.EvalSymlinks(d.Path)
	if err == nil && at != want {
		err = fmt.Errorf("data %q lie in %s already, and cannot lie in %s: use another name", d.name, at, want)
	}
	return err == nil, err
}

// makeOpen makes a directory in which each user has files of his own.
func makeOpen(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o777|fs.ModeSticky); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// Stage makes a directory ahead of the container that will take it, unless
// spec needs none or one that fits waits already.
func (k *Keeper) Stage(spec bench.Spec) error {
	if spec.Storage != "bind" {
		return nil
	}
	d, err := k.Take(spec)
	if err != nil || d.name != "" {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.staged = append(k.staged, d)
	return nil
}

// Take returns a directory for a container of spec, a staged one if there is
// one that fits. It is nil unless the Storage is "bind".
func (k *Keeper) Take(spec bench.Spec) (*Dir, error) {
	if spec.Storage != "bind" {
		return nil, nil
	}
	if spec.DataName == "" {
		if d := k.waiting(spec.Data); d != nil {
			return d, nil
		}
	}
	d, err := k.Reserve(spec)
	if err != nil {
		return nil, err
	}
	return d, k.Make(d)
}

// waiting takes a staged directory below parent off the list.
func (k *Keeper) waiting(parent string) *Dir {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, d := range k.staged {
		if d.parent == parent {
			k.staged = append(k.staged[:i], k.staged[i+1:]...)
			return d
		}
	}
	return nil
}

// Mounts returns what is mounted in a container of spec: what it asks for, and
// what its data lies on, where that takes a mount of the host's or a tmpfs. D is
// the directory that was taken for it.
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

// Check says what of a Spec no engine can do about its data: to keep it in a
// layer that is read-only, or in a directory that has no absolute path; or to keep
// what goes with the container. The error wraps bench.ErrUnsupported.
func Check(spec bench.Spec) error {
	switch {
	case spec.Storage == "layer" && spec.Security.ReadOnly:
		return fmt.Errorf("%w: storage layer cannot be written to with read_only: use bind, tmpfs or volume", bench.ErrUnsupported)
	case spec.Data != "" && !filepath.IsAbs(spec.Data):
		return fmt.Errorf("%w: data %q: the directory's path must be absolute", bench.ErrUnsupported, spec.Data)
	case spec.DataName != "" && spec.Storage != "bind" && spec.Storage != "volume":
		return fmt.Errorf("%w: data that outlive a container cannot lie on storage %q: use bind or volume",
			bench.ErrUnsupported, spec.Storage)
	case spec.DataName != "" && !isName(spec.DataName):
		return fmt.Errorf("%w: %.40q is no name of data: use lower-case letters, digits and -, a letter first, at most %d",
			bench.ErrUnsupported, spec.DataName, maxName)
	}
	return nil
}

// maxName is how long the name of data may be.
const maxName = 32

// isName reports whether data may have a name. It is never a number, which those have
// that go with their container.
func isName(name string) bool {
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

// Archive is a tar archive of bench.DataDir, to which every user may write, for
// the root of containers whose files are reached through an engine alone.
func Archive() ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: bench.DataDir[1:] + "/", Mode: 0o1777, ModTime: time.Unix(0, 0)})
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// MakeIn makes bench.DataDir in an unpacked image, or in what lies over one,
// unless it is there. No link in the image leads elsewhere.
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
