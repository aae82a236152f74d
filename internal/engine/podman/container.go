package podman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// running is a container of the engine, from its creation to its removal.
type running struct {
	client *client
	id     string
	image  owned.Loaded
	spec   bench.Spec
	data   *datadir.Dir // of the host; nil where none was asked for

	profile string // the file with the filter that bench.SeccompDocker means

	attached       bool // Attach was called
	stdout, stderr io.Writer

	tried  atomic.Bool // to be removed: from then on it is cleaned up
	execs  atomic.Bool // a further process was run in it
	output stdstream.Output

	mu     sync.Mutex
	logged bool  // the log was asked
	logErr error // why it cannot be read
}

func (c *running) ID() string { return c.id }

func (c *running) at(call string) string { return "/containers/" + c.id + call }

// Attach notes where the output goes. Start attaches, because for Podman that
// is half of starting: it makes the namespaces, mounts and network and has the
// runtime create the container, all of which it would do in start otherwise.
func (c *running) Attach(ctx context.Context, stdout, stderr io.Writer) error {
	c.attached, c.stdout, c.stderr = true, stdout, stderr
	return ctx.Err()
}

// Start starts the container with one call, or two if there is output to be
// copied.
func (c *running) Start(ctx context.Context) error {
	if c.attached {
		if err := c.attach(ctx); err != nil {
			return c.failed("attach", err)
		}
	}
	if err := c.client.post(ctx, c.at("/start"), nil, nil); err != nil {
		return c.failed("start", err)
	}
	return nil
}

// attach opens a connection on which Podman sends what is printed, and copies
// from it until the container has ended. Podman keeps the output in its log as
// well, as it does for everybody.
func (c *running) attach(ctx context.Context) error {
	stream, err := c.client.hijack(ctx, c.at("/attach?stream=true&stdout=true&stderr=true"), nil)
	if err != nil {
		return err
	}
	c.output.Follow(c.stdout, c.stderr, stream, func() { _ = stream.Close() }) // nothing is sent on it
	return nil
}

// logTime is how long Podman may take to give the log of a container.
const logTime = 10 * time.Second

// copyLog copies what Podman has logged of a container that has ended, and of whose
// output nothing came. On a busy machine Podman 4.3 now and then ends the stream before
// the container has printed anything (once among 280 containers, at a load of 10).
// Whether there is anything is asked of the file, which takes microseconds, since most
// such containers have printed nothing.
func (c *running) copyLog(ctx context.Context) error {
	store := c.client.Store
	info, err := os.Stat(filepath.Join(store.GraphRoot, store.Driver+"-containers", c.id, "userdata", "ctr.log"))
	if err != nil || info.Size() == 0 {
		return nil // nothing; or logged to the journal, of which only a call would tell, and that would be timed
	}
	answer, err := c.client.send(ctx, http.MethodGet, c.at("/logs?stdout=true&stderr=true"), "", nil)
	if err != nil {
		return err
	}
	return errors.Join(stdstream.Copy(c.stdout, c.stderr, answer.Body), answer.Body.Close())
}

// Wait returns when Podman says that the container has exited, which it does
// once it has also cleaned up after it. See awaitMonitor.
func (c *running) Wait(ctx context.Context) (bench.Exit, error) {
	if c.client.before(5, 3) {
		if err := c.awaitMonitor(ctx); err != nil {
			return bench.Exit{}, c.failed("wait", err)
		}
	}
	var exit bench.Exit
	if err := c.client.post(ctx, c.at("/wait?condition=exited&interval="+pollInterval), nil, &exit.Code); err != nil {
		return exit, c.failed("wait", err)
	}
	if exit.Code < 0 {
		return bench.Exit{}, c.failed("wait", fmt.Errorf("exit status %d", exit.Code))
	}
	if err := c.drain(ctx); err != nil {
		return exit, c.failed("wait for the output", err)
	}
	if exit.Code == 137 {
		return c.killed(ctx, exit)
	}
	return exit, nil
}

// killed asks whether a process that got SIGKILL got it for want of memory.
func (c *running) killed(ctx context.Context, exit bench.Exit) (bench.Exit, error) {
	got, err := c.inspect(ctx)
	if err != nil {
		return exit, c.failed("inspect", err)
	}
	exit.OOM = got.State.OOMKilled
	return exit, nil
}

// drain returns when everything that was printed has been copied, or with the reason why
// it cannot be.
func (c *running) drain(ctx context.Context) error {
	if err := c.output.Drain(ctx); err != nil || !c.output.Empty() {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.logged {
		c.logged = true
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTime)
		defer cancel()
		c.logErr = c.copyLog(limited)
	}
	return c.logErr
}

// Remove kills at once and removes the container with its volumes, with one call.
// The next one, after that has failed, does what it takes.
func (c *running) Remove(ctx context.Context) error {
	if c.tried.Swap(true) {
		if err := c.client.removeContainer(ctx, c.id); err != nil {
			return err
		}
	} else if err := c.client.call(ctx, http.MethodDelete, c.at(removal), nil, nil); err != nil {
		return c.failed("remove", err)
	}
	if err := c.data.Remove(); err != nil {
		return c.failed("remove", err)
	}
	if c.execs.Load() {
		c.client.retire(c.id)
	}
	c.output.Close()
	return nil
}

// removal is the end of the call that kills and removes a container.
const removal = "?force=true&volumes=true&timeout=0"

// removeContainer cleans a container up, with another service and with another try
// if need be. It is not an error if there is none.
func (c *client) removeContainer(ctx context.Context, id string) error {
	remove := func() error { return c.remove(ctx, "/containers/"+id+removal) }
	err := remove()
	for wait := time.Millisecond; busy(err) && wait < time.Second && ctx.Err() == nil; wait *= 2 {
		time.Sleep(wait)
		err = remove()
	}
	if err != nil {
		return c.failed("remove "+id, err)
	}
	if err := c.endEvicted(ctx, id); err != nil {
		return c.failed("remove "+id+": what Podman has left of it", err)
	}
	return nil
}

// busy reports whether Podman met itself: the process that it has clean up after
// every container, of one with a user namespace later than it says, was unmounting
// what was to be deleted.
func busy(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && strings.Contains(e.Message, "device or resource busy")
}

func (c *running) failed(call string, err error) error {
	return c.client.failed(call+" "+c.id[:min(12, len(c.id))], err)
}
