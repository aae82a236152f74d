package remote_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/engine/oci"
	driver "github.com/tare-bench/tare/internal/engine/remote"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/remote"
	"github.com/tare-bench/tare/internal/remote/peer"
)

// place is where a session of the server works.
type place struct {
	name string
	open func(name string) bench.Engine
}

func (p place) Name() string                             { return p.name }
func (p place) Engine(name string) (bench.Engine, error) { return p.open(name), nil }
func (place) Close() error                               { return nil }

// serve lends one engine over pipes until the test ends, and returns the link to it.
func serve(t testing.TB, name string, open func() bench.Engine) *driver.Link {
	t.Helper()
	served, dial := served(t, remote.Config{
		Version: "test", Address: netip.MustParseAddr("127.0.0.1"),
		Machine: func(context.Context) remote.Machine { return remote.Machine{Host: bench.HostFacts{Hostname: "there"}} },
		Open: func() (remote.EngineHost, error) {
			return place{name, func(string) bench.Engine { return open() }}, nil
		},
		Log: func(string) {},
	})
	link := driver.NewLink(dial)
	t.Cleanup(func() {
		_ = link.Close() // the server ends it anyway
		if err := served(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return link
}

// served returns what begins a session with a server over pipes, and what ends the last server and
// returns its error.
func served(t testing.TB, c remote.Config) (end func() error, dial func(context.Context) (*peer.Session, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	ended <- nil
	dial = func(ctx2 context.Context) (*peer.Session, error) {
		if err := <-ended; err != nil { // of the session before
			return nil, err
		}
		in, toServer, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		fromServer, out, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		go func() {
			err := remote.Serve(ctx, in, out, c)
			_ = errors.Join(in.Close(), out.Close()) // Serve may have closed one
			ended <- err
		}()
		return peer.Dial(ctx2, peer.Target{Host: "there", Version: c.Version}, fromServer, toServer)
	}
	return func() error { cancel(); return <-ended }, dial
}

// remoteEngine opens an engine at the far end of a connection over loopback.
func remoteEngine(open func(testing.TB, enginetest.Env) bench.Engine) func(testing.TB, enginetest.Env) bench.Engine {
	return func(t testing.TB, s enginetest.Env) bench.Engine {
		link := serve(t, s.Run, func() bench.Engine { return open(t, s) })
		return driver.New(driver.Config{Name: "far", Engine: "near", Link: link})
	}
}

func localNative(_ testing.TB, s enginetest.Env) bench.Engine {
	return native.New(native.Config{Name: "near", Run: s.Run, Dir: s.Dir, Images: s.Images})
}

func localRunc(_ testing.TB, s enginetest.Env) bench.Engine {
	return oci.New(oci.Config{Name: "near", Run: s.Run, Dir: s.Dir, Images: s.Images, Binary: "runc"})
}

// Whatever an engine does, it does from afar.
func TestConformance(t *testing.T) {
	t.Run("native", func(t *testing.T) {
		enginetest.Run(t, enginetest.Options{
			Open: remoteEngine(localNative), Remote: true,
			Unsupported: append(enginetest.OwnNetworks(),
				enginetest.NetworkNone, enginetest.BindMount, enginetest.TmpfsMount,
				enginetest.CPUQuota, enginetest.CPUSet, enginetest.MemoryLimit, enginetest.PidsLimit,
				enginetest.ReadOnlyRoot, enginetest.NoNewPrivileges, enginetest.SeccompDocker,
				enginetest.UserNS, enginetest.Privileged,
				enginetest.Layer, enginetest.AnyImage, enginetest.StorageLayer, enginetest.StorageVolume, enginetest.StorageBind,
				enginetest.StorageTmpfs, enginetest.ForeignData, enginetest.ShmSize, enginetest.ReachSocket,
			),
		})
	})
	t.Run("runc", func(t *testing.T) {
		_, err := localRunc(t, enginetest.NewEnv(t, imagetest.Library(t))).Probe(t.Context())
		enginetest.Require(t, "runc", err)
		enginetest.Run(t, enginetest.Options{
			Open: remoteEngine(localRunc), Remote: true,
			Unsupported: append(enginetest.BareNetworks(),
				enginetest.StorageLayer, enginetest.StorageVolume, enginetest.StorageBind,
				enginetest.StorageTmpfs, enginetest.ForeignData, enginetest.ReachSocket),
		})
	})
}
