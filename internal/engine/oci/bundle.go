package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/userns"
)

// A bundle is the directory that a runtime makes a container of, and the pipes
// that its process will print to. Nobody but the run's owner passes through it,
// and through the engine's directory above: the files of the image, and those
// that root makes in the container, have set-user-ID bits and capabilities, or
// are devices. A user namespace's root is let through where there is one.
type bundle struct {
	id     string // of the container
	dir    string
	cgroup string
	image  *image.Image
	userNS bool         // its files are those of a user namespace
	base   string       // the unpacked image, the overlay's lower directory
	data   *datadir.Dir // of the host, for the container's data; nil where it needs none
	// configured is the Spec that config.json was made for, as JSON.
	configured []byte

	mu             sync.Mutex // held while the bundle is taken down
	stdout, stderr *pipe
	errors         *os.File // what the runtime's commands print to stderr
}

func (b *bundle) path(name string) string { return filepath.Join(b.dir, name) }

// stage makes a bundle that lacks only its config.json.
func (e *Engine) stage(ctx context.Context, img *image.Image, userNS bool) (*bundle, error) {
	base, err := img.Rootfs(ctx)
	if err != nil {
		return nil, err
	}
	number, dir, err := e.mkdir()
	if err != nil {
		return nil, err
	}
	b := &bundle{
		id:     containerID(e.cfg.Run, e.cfg.Name, strconv.Itoa(number)),
		dir:    dir,
		cgroup: groupOf(e.cfg.Run, e.cfg.Name, strconv.Itoa(number)),
		image:  img,
		userNS: userNS,
		base:   base,
	}
	if err := b.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("stage bundle %s: %w", dir, err), b.remove())
	}
	return b, nil
}

// mkdir makes the next bundle's directory. A number whose directory exists is
// passed over: a run that is resumed after a crash can have leftovers.
func (e *Engine) mkdir() (number int, dir string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		e.number++
		dir = filepath.Join(e.dir, strconv.Itoa(e.number))
		if err := os.Mkdir(dir, 0o700); !errors.Is(err, fs.ErrExist) {
			return e.number, dir, err
		}
	}
}

// open makes what a bundle consists of.
func (b *bundle) open() (err error) {
	for _, name := range []string{"rootfs", "upper", "work"} {
		if err := os.Mkdir(b.path(name), 0o700); err != nil {
			return err
		}
	}
	// It gives the container's root its mode, whatever the umask.
	if err := os.Chmod(b.path("upper"), 0o755); err != nil {
		return err
	}
	if err := b.own(); err != nil {
		return err
	}
	if err := b.mount(); err != nil {
		return err
	}
	if b.errors, err = os.OpenFile(b.path("stderr"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return err
	}
	return b.pipes()
}

// pipes makes what the container's process prints to, in place of what an
// earlier one has printed to.
func (b *bundle) pipes() (err error) {
	b.stdout.close()
	b.stderr.close()
	if b.stdout, err = newPipe(); err != nil {
		return err
	}
	b.stderr, err = newPipe()
	return err
}

// lower is what the writable layer lies over: the image, or what own makes of it.
func (b *bundle) lower() string {
	if b.userNS {
		return b.path("lower")
	}
	return b.base
}

// own gives the files to the root of the user namespace, if there is to be one.
func (b *bundle) own() (err error) {
	if !b.userNS {
		return nil
	}
	ns, err := userns.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ns.Close()) }()
	if err := errors.Join(os.Mkdir(b.lower(), 0o700), os.Chown(b.path("upper"), userns.First, userns.First)); err != nil {
		return err
	}
	if err := errors.Join(userns.Admit(filepath.Dir(b.dir)), userns.Admit(b.dir)); err != nil {
		return err
	}
	return userns.Bind(b.base, b.lower(), ns)
}

// mount lays a fresh writable layer over the image.
func (b *bundle) mount() error {
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", quoteOverlay(b.lower()), quoteOverlay(b.path("upper")), quoteOverlay(b.path("work")))
	if err := unix.Mount("overlay", b.path("rootfs"), "overlay", 0, options); err != nil {
		return &os.PathError{Op: "mount overlay", Path: b.path("rootfs"), Err: err}
	}
	return nil
}

// quoteOverlay escapes the separators of an overlay's options, which can be
// part of a path.
func quoteOverlay(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}

// keep gives the container what its data will lie on, unless it has that.
func (b *bundle) keep(k *datadir.Keeper, spec bench.Spec) (err error) {
	if spec.Storage == "layer" {
		return datadir.MakeIn(b.path("rootfs"))
	}
	if b.data.Fits(spec) {
		return nil
	}
	if err := b.data.Remove(); err != nil {
		return err
	}
	if b.data, err = k.Take(spec); err != nil || b.data == nil || !b.userNS {
		return err
	}
	return k.Admit()
}

// configure writes config.json for spec, unless it is there already. Telling
// that takes 2 µs, making it 25.
func (b *bundle) configure(spec bench.Spec) error {
	key, err := json.Marshal(spec)
	if err != nil || bytes.Equal(key, b.configured) {
		return err
	}
	s, err := specification(spec, b)
	if err != nil {
		return err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	b.configured = nil
	if err := os.WriteFile(b.path("config.json"), text, 0o600); err != nil {
		return err
	}
	b.configured = key
	return nil
}

// remove takes the bundle down, as far as it was made. Twice is fine.
func (b *bundle) remove() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stdout.close()
	b.stderr.close()
	if b.errors != nil {
		_ = b.errors.Close() // nothing was written through it here
	}
	return errors.Join(b.data.Remove(), removeTree(b.dir))
}

// removeTree unmounts what is mounted below dir and deletes it. Nothing is
// deleted while anything is mounted there: it would be deleted in the mount.
func removeTree(dir string) error {
	// The kernel names mounts by their real paths.
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	dir = filepath.Join(parent, filepath.Base(dir))
	points, err := mountedBelow(dir)
	if err != nil {
		return err
	}
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return &os.PathError{Op: "unmount", Path: point, Err: err}
		}
	}
	points, err = mountedBelow(dir)
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("remove %s: something is mounted at %s", dir, points[0])
	}
	return os.RemoveAll(dir)
}

// mountedBelow lists where something is mounted at a directory or below it, in
// the order it was mounted.
func mountedBelow(dir string) ([]string, error) {
	mounts, err := proc.Mounts("/", 0)
	if err != nil {
		return nil, err
	}
	var points []string
	for _, m := range mounts {
		if m.Point == dir || strings.HasPrefix(m.Point, dir+"/") {
			points = append(points, m.Point)
		}
	}
	return points, nil
}
