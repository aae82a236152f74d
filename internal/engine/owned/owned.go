// Package owned is what drivers of engines with objects of their own have in common: labels and names,
// calls that make and remove something, the images that the run has put into the engine's store, and
// the leftovers of dead runs. A driver makes the calls; see Store.
package owned

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Label is on every object; its value is the run's ID.
const Label = bench.RunLabel

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

// RunOfLabels is the ID of the run that has made an object, from the object's labels, or that had
// compose make it; empty if no run has.
func RunOfLabels(labels map[string]string) string {
	if run := labels[Label]; run != "" {
		return run
	}
	return bench.ProjectRun(labels[bench.ProjectLabel])
}

// CheckProject refuses a project that is not of the run.
func (r Run) CheckProject(project string) error {
	if bench.ProjectRun(project) != r.ID {
		return fmt.Errorf("%s: %.80q is not a project of run %s", r.Engine, project, r.ID)
	}
	return nil
}

// ProjectLabels are the labels of the network of a project or, with a service, of a container in it.
func (r Run) ProjectLabels(project, service string) map[string]string {
	labels := map[string]string{Label: r.ID, bench.ProjectLabel: project}
	if service != "" {
		labels[bench.ServiceLabel] = service
	}
	return labels
}

// Marks are the labels of which at least one is on every object of a run that can have labels.
func Marks() []string { return []string{Label, bench.ProjectLabel} }

// CheckLabels is an error that wraps bench.ErrMismatch if these are not the labels of an object of
// the run. What an engine names in its answer need not be what it made.
func (r Run) CheckLabels(labels map[string]string) error {
	if RunOfLabels(labels) != r.ID {
		return fmt.Errorf("%w: the engine's answer to create named a container that this run did not make (its label %s "+
			"is %.80q)", bench.ErrMismatch, Label, labels[Label])
	}
	return nil
}

// CallError adds to an error which call of the engine failed; nil stays nil.
func (r Run) CallError(call string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", r.Engine, call, err)
}

// MissingImage is the error that the engine has no image with that name. fetch is the command that
// fetches one, such as "docker pull".
func (r Run) MissingImage(ref, fetch string) error {
	return fmt.Errorf("%s %w %q: fetch it first with `%s %s`, or %s",
		r.Engine, bench.ErrNoImage, ref, fetch, ref, image.NamedElsewhere(ref))
}

// Restart has systemd restart a unit, and returns when answers reports no error any more.
// elsewhere is the engine's address if it is not the unit's default one; empty otherwise.
func (r Run) Restart(ctx context.Context, unit, elsewhere string, answers func() error) error {
	cannot := func(why string) error {
		return fmt.Errorf("%w: restart of %s: %s: restart it with a command hook", bench.ErrUnsupported, r.Engine, why)
	}
	if elsewhere != "" {
		return cannot("tare can restart only the default one, and this one is at " + elsewhere)
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return cannot("this machine does not run systemd")
	}
	if err := exec.CommandContext(ctx, "systemctl", "--quiet", "is-active", unit).Run(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return cannot("systemd does not run " + unit)
	}
	if out, err := exec.CommandContext(ctx, "systemctl", "restart", unit).CombinedOutput(); err != nil {
		return r.CallError("systemctl restart "+unit,
			fmt.Errorf("%w: %.500q", bench.Because(ctx, err), strings.TrimSpace(string(out))))
	}
	for {
		err := answers()
		if err == nil {
			return nil
		}
		if over := bench.Sleep(ctx, 50*time.Millisecond); over != nil {
			return r.CallError("wait for an answer after the restart", errors.Join(over, err))
		}
	}
}

// The kinds of what a dead run leaves.
const (
	KindContainer = "container"
	KindSandbox   = "sandbox"
	KindSnapshot  = "snapshot" // of a container whose creation was cut off
	KindImage     = "image"
	KindNetwork   = "network"
	KindVolume    = "volume"
	KindPod       = "pod"       // of a compose project
	KindCache     = "cache"     // of a builder: one record
	KindGroup     = "cgroup"    // of the run
	KindProcess   = "process"   // that the run started
	KindDirectory = "directory" // of such a process
)

// Leftovers collects the objects that dead runs have left in one engine.
type Leftovers struct {
	Engine string                // name of the instance
	IsDead func(run string) bool // reports whether a run is dead
	Found  []bench.Leftover
}

// Add adds an object, once, if its run is dead. It ignores runs without a valid ID, which are not
// tare's.
func (l *Leftovers) Add(run, kind, id string) {
	left := bench.Leftover{Run: run, Engine: l.Engine, Kind: kind, ID: id}
	if bench.ValidRunID(run) == nil && l.IsDead(run) && !slices.Contains(l.Found, left) {
		l.Found = append(l.Found, left)
	}
}

// ProcessID names a process. It has the start time too, because another process can get the same number
// later.
func ProcessID(p proc.Process) string { return fmt.Sprintf("%d@%d", p.PID, p.Start) }

// KillProcess kills exactly the process with that ID, and returns when it is dead. find returns the
// process that has a number now, and whether it can be the one.
func KillProcess(ctx context.Context, id string, find func(pid int) (proc.Process, bool)) error {
	number, _, _ := strings.Cut(id, "@")
	pid, err := strconv.Atoi(number)
	if err != nil || pid <= 1 {
		return fmt.Errorf("leftover %q is not the ID of a process (PID@START)", id)
	}
	still := func() bool { p, ok := find(pid); return ok && ProcessID(p) == id }
	if err := cgroup.KillProcess(pid, still); err != nil {
		return err
	}
	for still() {
		if err := bench.Sleep(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	return nil
}
