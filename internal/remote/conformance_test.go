package remote_test

import (
	"context"
	"net"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/engine/oci"
	driver "github.com/tare-bench/tare/internal/engine/remote"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/remote"
)

// place is where a session of the server works.
type place struct {
	name string
	open func(name string) bench.Engine
}

func (p place) Name() string                             { return p.name }
func (p place) Engine(name string) (bench.Engine, error) { return p.open(name), nil }
func (place) Close() error                               { return nil }

// serve lends one engine on loopback until the test ends, and returns the link
// to it.
func serve(t testing.TB, name string, open func() bench.Engine) *driver.Link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	config := remote.Config{
		Token: remote.NewToken(), Version: "test",
		Machine: func(context.Context) remote.Machine { return remote.Machine{Host: bench.HostFacts{Hostname: "there"}} },
		Open: func() (remote.EngineHost, error) {
			return place{name, func(string) bench.Engine { return open() }}, nil
		},
		Log: func(string) {},
	}
	go func() { ended <- remote.Serve(ctx, l, config) }()
	target := remote.Target{Address: l.Addr().String(), Token: config.Token, Version: "test"}
	link := driver.NewLink(func() (remote.Target, error) { return target, nil })
	t.Cleanup(func() {
		_ = link.Close() // the server ends it anyway
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return link
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
