// Package owned keeps account of what a run has in an engine that keeps objects of its
// own: their label and their names, the images that the engine has because of the run,
// and what dead runs have left. A driver does the calls; see Store.
package owned

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
)

// Label is on every object; its value is the run's ID.
const Label = "tare.run"

// repository begins the names of all images that tare loads. No registry can have that
// name, so that an engine never asks one for them.
const repository = "tare.local/"

// A Run is the share of a run that one engine instance has.
type Run struct {
	ID     string // of the run
	Engine string // name of the instance
}

// Prefix returns what begins the names of objects. It is another one each time: a run
// that is resumed after a crash must not meet its old names.
func (r Run) Prefix() string {
	var nonce [3]byte
	_, _ = rand.Read(nonce[:]) // never fails, since Go 1.24
	return fmt.Sprintf("%s-%s-%s-", r.ID, r.Engine, hex.EncodeToString(nonce[:]))
}

// ImageName is the run's name for an image of which short tells which it is.
func (r Run) ImageName(short string) string {
	return repository + r.ID + "/" + r.Engine + "/" + short + ":latest"
}

// NameOf is the run's name for an image: by its digest, or "agent".
func (r Run) NameOf(img *image.Image) (string, error) {
	short := strings.TrimPrefix(img.Digest(), "sha256:")
	if len(short) < 12 {
		return "", fmt.Errorf("image %s: not a digest: %q", img.Ref(), img.Digest())
	}
	if img.Ref() == image.Agent {
		return r.ImageName("agent"), nil
	}
	return r.ImageName(short[:12]), nil
}

// RunOf is the run in the name of an image that one has loaded or pulled; empty if none
// has.
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

// Failed says which call of the engine failed.
func (r Run) Failed(call string, err error) error {
	return fmt.Errorf("%s: %s: %w", r.Engine, call, err)
}

// Missing says that the engine has no image of that name. Fetch is the command that
// fetches one, such as "docker pull".
func (r Run) Missing(ref, fetch string) error {
	return fmt.Errorf("%s %w %q: fetch it first with `%s %s`, or %s",
		r.Engine, bench.ErrNoImage, ref, fetch, ref, image.NamedElsewhere(ref))
}

// Restart has systemd restart a unit, and returns when answers finds that it answers again.
// Elsewhere says where the engine is, if not where that unit would have it.
func (r Run) Restart(ctx context.Context, unit, elsewhere string, answers func() error) error {
	cannot := func(why string) error {
		return fmt.Errorf("%w: %s cannot be restarted: %s: use a hook with a command of your own", bench.ErrUnsupported, r.Engine, why)
	}
	if elsewhere != "" {
		return cannot("it is at " + elsewhere)
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return cannot("systemd does not run here")
	}
	if err := exec.CommandContext(ctx, "systemctl", "--quiet", "is-active", unit).Run(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return cannot("systemd does not run " + unit)
	}
	if out, err := exec.CommandContext(ctx, "systemctl", "restart", unit).CombinedOutput(); err != nil {
		return r.Failed("systemctl restart "+unit, fmt.Errorf("%w: %.500q", bench.Because(ctx, err), strings.TrimSpace(string(out))))
	}
	for {
		err := answers()
		if err == nil {
			return nil
		}
		if over := bench.Sleep(ctx, 50*time.Millisecond); over != nil {
			return r.Failed("wait until it answers", errors.Join(over, err))
		}
	}
}

// Leftovers collects what dead runs have left in one engine.
type Leftovers struct {
	Engine string                // name of the instance
	Dead   func(run string) bool // whether a run is
	Found  []bench.Leftover
}

// Add adds an object if its run is dead. A run without a valid ID is none of tare's.
func (l *Leftovers) Add(run, kind, id string) {
	if bench.ValidRunID(run) == nil && l.Dead(run) {
		l.Found = append(l.Found, bench.Leftover{Run: run, Engine: l.Engine, Kind: kind, ID: id})
	}
}
