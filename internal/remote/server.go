package remote

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/remote/peer"
)

// endTime limits the clean-up after a session.
const endTime = time.Minute

// A Config is what a server needs. All fields are required unless their comments say otherwise.
type Config struct {
	Version string // of tare; a client's must be the same
	// Address is the one of this machine to which the client connected: see peer.AddressOf.
	Address netip.Addr
	Machine func(ctx context.Context) Machine

	// Open makes the EngineHost of the session. It is called when the session begins.
	Open func() (EngineHost, error)
	// Permit refuses what a client may not run; nil permits everything.
	Permit func(bench.Spec) error
	// Log gets messages for people about what the server does. It may be called from any goroutine.
	Log func(text string)

	Containers int // of the session at the same time; 0 = 64
}

// An EngineHost has the engines and files of one session.
type EngineHost interface {
	// Name identifies the session in the log.
	Name() string
	// Engine opens an engine that the machine offers. It is called once for each
	// name; the error wraps bench.ErrUnsupported if there is no such engine.
	Engine(name string) (bench.Engine, error)
	// Close is called at the end, after every engine was closed.
	Close() error
}

// Serve lends this machine's engines to the client at the other ends of two files. It returns when
// the client or ctx has ended, and everything that the session made is removed.
func Serve(ctx context.Context, in, out *os.File, c Config) error {
	c.Containers = cmp.Or(c.Containers, 64)
	host, err := c.Open()
	if err != nil {
		return err
	}
	c.Log(fmt.Sprintf("session %s has begun", host.Name()))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v := newSession(ctx, c, host)
	err = peer.Serve(ctx, in, out, peer.Greeting{Version: c.Version, Role: Role, Address: c.Address}, v.handler())
	cancel()
	done, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer stop()
	if left := v.end(done); left != nil {
		return fmt.Errorf("session %s has ended, but some of its objects could not be removed (run 'tare clean' on "+
			"this machine): %w", host.Name(), left)
	}
	c.Log(fmt.Sprintf("session %s has ended, and everything that it made is removed", host.Name()))
	return err
}
