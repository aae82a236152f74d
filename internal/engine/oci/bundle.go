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
	"github.com/tare-bench/tare/internal/kernel/userns"
)

// A bundle is the directory that a runtime makes a container from, and the pipes that its process
// will print to. Only the run's owner may enter it and the engine's directory above, because files
// of the image, and files that root makes in the container, can have set-user-ID bits or
// capabilities, or be devices. With a user namespace, that namespace's root may enter too.
type bundle struct {
	id     string // of the container
	dir    string
	cgroup string
	image  *image.Image
	userNS bool         // its files belong to a user namespace
	base   string       // the unpacked image, the overlay's lower directory
	data   *datadir.Dir // on the host, for the container's data; nil if it needs none
	// configuredFor is the Spec that config.json was made from, as JSON.
	configuredFor []byte

	mu             sync.Mutex // held while the bundle is removed
	stdout, stderr *pipe
	errors         *os.File // stderr of the runtime's commands
}

func (b *bundle) path(name string) string { return filepath.Join(b.dir, name) }

// prepareBundle makes a bundle that lacks only its config.json.
func (e *Engine) prepareBundle(ctx context.Context, img *image.Image, userNS bool) (*bundle, error) {
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

// mkdir makes the next bundle's directory. It skips numbers whose directories exist: a run that is
// resumed after a crash can have leftovers.
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

// open makes the parts of a bundle.
func (b *bundle) open() (err error) {
	for _, name := range []string{"rootfs", "upper", "work"} {
		if err := os.Mkdir(b.path(name), 0o700); err != nil {
			return err
		}
	}
	// The mode of the container's root is the mode of upper, and must not depend on the umask.
	if err := os.Chmod(b.path("upper"), 0o755); err != nil {
		return err
	}
	if err := b.chownRoot(); err != nil {
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

// pipes makes the pipes for the output of the container's process. They replace those of an earlier
// process.
func (b *bundle) pipes() (err error) {
	b.stdout.close()
	b.stderr.close()
	if b.stdout, err = newPipe(); err != nil {
		return err
	}
	b.stderr, err = newPipe()
	return err
}

// lowerDir is the directory below the writable layer: the image, or the copy of it that own makes.
func (b *bundle) lowerDir() string {
	if b.userNS {
		return b.path("lower")
	}
	return b.base
}

// chownRoot gives the image's files to the root of the user namespace, if the container has one.
func (b *bundle) chownRoot() (err error) {
	if !b.userNS {
		return nil
	}
	ns, err := userns.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ns.Close()) }()
	if err := errors.Join(os.Mkdir(b.lowerDir(), 0o700),
		os.Chown(b.path("upper"), userns.First, userns.First)); err != nil {
		return err
	}
	if err := errors.Join(userns.AllowTraverse(filepath.Dir(b.dir)), userns.AllowTraverse(b.dir)); err != nil {
		return err
	}
	return userns.Bind(b.base, b.lowerDir(), ns)
}

// mount mounts a fresh writable layer over the image.
func (b *bundle) mount() error {
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", quoteOverlay(b.lowerDir()), quoteOverlay(b.path("upper")),
		quoteOverlay(b.path("work")))
	if err := unix.Mount("overlay", b.path("rootfs"), "overlay", 0, options); err != nil {
		return &os.PathError{Op: "mount overlay", Path: b.path("rootfs"), Err: err}
	}
	return nil
}

// quoteOverlay escapes the characters of a path that would separate an overlay's options.
func quoteOverlay(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}

// takeData makes the directory for the container's data, unless the bundle has it.
func (b *bundle) takeData(k *datadir.Manager, spec bench.Spec) (err error) {
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
	return b.data.AllowUserNS()
}

// configure writes config.json for spec, unless the existing file is for the same spec. That check
// takes 2 µs; writing the file takes 25.
func (b *bundle) configure(spec bench.Spec) error {
	key, err := json.Marshal(spec)
	if err != nil || bytes.Equal(key, b.configuredFor) {
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
	b.configuredFor = nil
	if err := os.WriteFile(b.path("config.json"), text, 0o600); err != nil {
		return err
	}
	b.configuredFor = key
	return nil
}

// remove removes the bundle, even if it is incomplete. It may be called twice.
func (b *bundle) remove() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stdout.close()
	b.stderr.close()
	if b.errors != nil {
		_ = b.errors.Close() // only the runtime writes to it
	}
	return errors.Join(b.data.Remove(), removeTree(b.dir))
}

// removeTree unmounts everything below dir and then deletes dir.
func removeTree(dir string) error {
	points, err := datadir.MountsBelow(dir)
	if err != nil {
		return err
	}
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return &os.PathError{Op: "unmount", Path: point, Err: err}
		}
	}
	return datadir.RemoveTree(dir)
}
