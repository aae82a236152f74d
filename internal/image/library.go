package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// Agent is the reference of tare's own image; so is the empty reference.
const Agent = "agent"

// ErrForeign means that a Library cannot read what a reference names: it may be a name in an
// engine's own store, which only that engine can resolve. Resolve wraps it.
var ErrForeign = errors.New("not an image that tare can read")

// Limits restrict what unpacking one image may use. A zero field means its default.
type Limits struct {
	Bytes   int64 // of all layers, uncompressed; default 16 GiB. It also stops compression bombs
	Entries int   // files, directories and links of all layers; default 1,000,000
	Path    int   // bytes in one path or link target; default 4096
}

func (l Limits) withDefaults() Limits {
	if l.Bytes == 0 {
		l.Bytes = 16 << 30
	}
	if l.Entries == 0 {
		l.Entries = 1_000_000
	}
	if l.Path == 0 {
		l.Path = 4096
	}
	return l
}

// A Library finds images and keeps their unpacked files below one directory. A reference keeps the
// meaning that it had when it was first resolved, as long as the Library lives. Its methods may be
// called concurrently.
type Library struct {
	dir    string
	limits Limits
	retry  retryPolicy
	agent  func() ([]byte, error)

	mu     sync.Mutex
	images map[string]*Image        // by reference
	locks  map[string]chan struct{} // by reference and by digest; held to find or to unpack an image
}

// An Option changes a new Library.
type Option func(*Library)

// WithAgent makes Agent an image of this binary instead of the embedded one.
func WithAgent(binary []byte) Option {
	return func(l *Library) { l.agent = func() ([]byte, error) { return binary, nil } }
}

// WithLimits sets what unpacking one image may use.
func WithLimits(limits Limits) Option {
	return func(l *Library) { l.limits = limits.withDefaults() }
}

// NewLibrary returns a Library that keeps unpacked files below dir, a run's
// private directory. It makes dir when it needs it. The owner of the run removes it.
func NewLibrary(dir string, options ...Option) *Library {
	l := &Library{
		dir:    dir,
		limits: Limits{}.withDefaults(),
		retry:  retryPolicy{idle: 30 * time.Second, pause: time.Second},
		agent:  AgentBinary,
		images: make(map[string]*Image),
		locks:  make(map[string]chan struct{}),
	}
	for _, o := range options {
		o(l)
	}
	return l
}

// Resolve finds the image that ref names:
//
//	agent         tare's own image; so does ""
//	oci:DIR       a directory in the OCI image layout
//	tar:FILE      an archive, from "docker save" or of an OCI image layout; it may be
//	              compressed as a whole with gzip or zstd
//	docker://REF  from a registry, with the credentials of the usual Docker
//	              configuration; a tag is resolved once, and everything is
//	              fetched by digest
//	host:NAME     a program of this host with what it needs, as package pack finds it;
//	              NAME is an absolute path, or looked for in PATH, /usr/sbin and /sbin
//
// Of several platforms it takes Linux on this machine's architecture. For any other reference the
// error wraps ErrForeign.
func (l *Library) Resolve(ctx context.Context, ref string) (*Image, error) {
	if ref == "" {
		ref = Agent
	}
	// Fetching an image can take long, and calls for other images need not wait for it.
	unlock, err := l.lockName(ctx, "reference "+ref)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if i := l.known(ref); i != nil {
		return i, nil
	}
	i, err := l.open(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w", ref, err)
	}
	i.ref, i.lib = ref, l
	l.mu.Lock()
	defer l.mu.Unlock()
	l.images[ref] = i
	return i, nil
}

func (l *Library) known(ref string) *Image {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.images[ref]
}

// CheckProgram returns an error if a container of spec would have nothing to run. It does not check
// an image that only its engine can resolve; the engine does.
func (l *Library) CheckProgram(ctx context.Context, spec bench.Spec) error {
	if len(spec.Argv) > 0 {
		return nil
	}
	img, err := l.Resolve(ctx, spec.Image)
	if err == nil {
		_, err = img.Argv(spec)
	}
	if errors.Is(err, ErrForeign) {
		return nil
	}
	return err
}

func (l *Library) open(ctx context.Context, ref string) (*Image, error) {
	if ref == Agent {
		return l.openAgent(ctx)
	}
	if remote, ok := strings.CutPrefix(ref, registryScheme); ok {
		return l.openRegistry(ctx, remote)
	}
	scheme, path, _ := strings.Cut(ref, ":")
	switch {
	case scheme == "oci" && path != "":
		return openLayout(directory(path))
	case scheme == "tar" && path != "":
		return l.openArchive(ctx, path)
	case scheme == hostScheme && path != "":
		return l.pack(ctx, path)
	}
	if err := checkReference(ref); err != nil {
		return nil, MisspeltError{err}
	}
	return nil, fmt.Errorf("%w: use %q, \"oci:DIR\", \"tar:FILE\", \"docker://REF\" or \"host:PROGRAM\", or an engine "+
		"that has an image with this name", ErrForeign, Agent)
}

// MisspeltError is the error for a reference that cannot name any image. It says what the reference
// should be.
type MisspeltError struct{ error }

// checkReference returns an error for a reference that cannot be a name in any engine: a path, another
// kind of address, or the beginning of one.
func checkReference(ref string) error {
	switch ref {
	case "oci:":
		return errors.New("it needs a directory: oci:DIR")
	case "tar:":
		return errors.New("it needs a file: tar:FILE")
	case hostScheme + ":":
		return errors.New("it needs a program: host:PROGRAM")
	case "docker:":
		return errors.New("it needs a name: docker://REF")
	}
	scheme, rest, isURL := strings.Cut(ref, "://")
	if isURL {
		return fmt.Errorf("no kind of image begins with %q: for an image of a registry write %s%s", scheme+"://",
			registryScheme, rest)
	}
	if rest, ok := strings.CutPrefix(ref, "docker:"); ok && strings.ContainsAny(rest, ":/@") {
		return fmt.Errorf("for an image of a registry write %s%s, with two slashes", registryScheme, rest)
	}
	isPath := strings.HasPrefix(ref, "/") || strings.HasPrefix(ref, "./") || strings.HasPrefix(ref, "../")
	info, err := os.Stat(ref)
	switch {
	case isPath && err != nil:
		return err
	case isPath && info.IsDir():
		return fmt.Errorf("this is a directory: if it is an OCI image layout, write oci:%s", ref)
	case isPath, err == nil && archiveName.MatchString(ref):
		return fmt.Errorf("this is a file: if it is an archive of an image, write tar:%s", ref)
	}
	return nil
}

// archiveName matches the names of files that are archives.
var archiveName = regexp.MustCompile(`\.(tar|tar\.gz|tgz)$`)

// IsOwn reports whether ref names an image that a Library makes itself. Such an image has
// bench.DataDir, an empty directory that every user may write to.
func IsOwn(ref string) bool {
	return ref == "" || ref == Agent || strings.HasPrefix(ref, hostScheme+":")
}

// unpacked returns the directory with i's files. It unpacks them first if necessary.
func (l *Library) unpacked(ctx context.Context, i *Image) (rootfs string, err error) {
	unlock, err := l.lockName(ctx, i.Digest())
	if err != nil {
		return "", err
	}
	defer unlock()
	dir := filepath.Join(l.dir, "images", i.digest.Hex)
	if _, err = os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		err = l.unpackInto(ctx, i, dir)
	}
	return filepath.Join(dir, "rootfs"), err
}

// lockName locks name, and waits until no other call has it locked.
func (l *Library) lockName(ctx context.Context, name string) (unlock func(), err error) {
	lock := l.lock(name)
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *Library) lock(name string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.locks[name] == nil {
		l.locks[name] = make(chan struct{}, 1)
	}
	return l.locks[name]
}

// unpackInto makes dir completely or not at all.
func (l *Library) unpackInto(ctx context.Context, i *Image, dir string) (err error) {
	// Nobody else may enter. Otherwise every user of the host could use the image's files with
	// set-user-ID bits or capabilities, and read files that are for root alone.
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), i.digest.Hex+".")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	if err := unpack(ctx, i.layers, filepath.Join(tmp, "rootfs"), l.limits); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}
