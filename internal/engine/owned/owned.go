// Package owned tracks the objects that a run has in an engine's own store: their label and names,
// the images that the run has put there, and the leftovers of dead runs. A driver makes the calls;
// see Store.
package owned

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
)

// Label is on every object; its value is the run's ID.
const Label = "tare.run"

// repository begins the names of all images that tare loads. No registry can have that name, so an
// engine never tries to fetch them.
const repository = "tare.local/"

// A Run is one engine instance in one run.
type Run struct {
	ID     string // of the run
	Engine string // name of the instance
}

// Prefix returns a prefix for the names of objects. It is new each time, so that a run that is
// resumed after a crash never meets its old names.
func (r Run) Prefix() string {
	var nonce [3]byte
	_, _ = rand.Read(nonce[:]) // never fails, since Go 1.24
	return fmt.Sprintf("%s-%s-%s-", r.ID, r.Engine, hex.EncodeToString(nonce[:]))
}

// ImageName is the run's name for an image; short identifies the image.
func (r Run) ImageName(short string) string {
	return repository + r.ID + "/" + r.Engine + "/" + short + ":latest"
}

// NameOf is the run's name for an image: by its digest, or "agent".
func (r Run) NameOf(img *image.Image) (string, error) {
	short := strings.TrimPrefix(img.Digest(), "sha256:")
	if len(short) < 12 {
		return "", fmt.Errorf("image %s: %q is not a digest", img.Ref(), img.Digest())
	}
	if img.Ref() == image.Agent {
		return r.ImageName("agent"), nil
	}
	return r.ImageName(short[:12]), nil
}

// RunOf is the ID of the run that has loaded or pulled an image, from the image's name; empty if no
// run has.
func RunOf(name string) string {
	if run := bench.PulledBy(name); run != "" {
		return run
	}
	rest, ok := strings.CutPrefix(name, repository)
	run, _, more := strings.Cut(rest, "/")
	if !ok || !more {
		return ""
	}
	return run
}

// Failed adds to an error which call of the engine failed.
func (r Run) Failed(call string, err error) error {
	return fmt.Errorf("%s: %s: %w", r.Engine, call, err)
}

// Missing is the error that the engine has no image with that name. fetch is the command that
// fetches one, such as "docker pull".
func (r Run) Missing(ref, fetch string) error {
	return fmt.Errorf("%s %w %q: fetch it first with `%s %s`, or %s",
		r.Engine, bench.ErrNoImage, ref, fetch, ref, image.NamedElsewhere(ref))
}

// Container returns a container as the driver's own type. engine is the name of the driver's
// instance. For a container of another driver, the error wraps bench.ErrUnsupported.
func Container[T bench.Container](c bench.Container, engine string) (T, error) {
	own, ok := c.(T)
	if !ok {
		return own, fmt.Errorf("%w: container %s does not belong to %s", bench.ErrUnsupported, c.ID(), engine)
	}
	return own, nil
}

// Leftovers collects the objects that dead runs have left in one engine.
type Leftovers struct {
	Engine string                // name of the instance
	Dead   func(run string) bool // reports whether a run is dead
	Found  []bench.Leftover
}

// Add adds an object if its run is dead. It ignores runs without a valid ID, which are not tare's.
func (l *Leftovers) Add(run, kind, id string) {
	if bench.ValidRunID(run) == nil && l.Dead(run) {
		l.Found = append(l.Found, bench.Leftover{Run: run, Engine: l.Engine, Kind: kind, ID: id})
	}
}
