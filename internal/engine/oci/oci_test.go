package oci_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/oci"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

var (
	_ bench.Engine          = (*oci.Engine)(nil)
	_ bench.Cgrouper        = (*oci.Engine)(nil)
	_ bench.Pauser          = (*oci.Engine)(nil)
	_ bench.Execer          = (*oci.Engine)(nil)
	_ bench.Signaler        = (*oci.Engine)(nil)
	_ bench.Checkpointer    = (*oci.Engine)(nil)
	_ bench.ProcessReporter = (*oci.Engine)(nil)
	_ bench.Addresser       = (*oci.Engine)(nil)
	_ bench.Cleaner         = (*oci.Engine)(nil)
)

func TestConformance(t *testing.T) {
	common := append(enginetest.BareNetworks(), enginetest.StorageVolume)
	for _, test := range []struct {
		runtime     string
		unsupported []enginetest.Feature
		sandboxed   bool
	}{
		{runtime: "runc"},
		{runtime: "crun"},
		{runtime: "youki"},
		{runtime: "runsc", unsupported: []enginetest.Feature{
			enginetest.PidsLimit, enginetest.NetworkBridge, enginetest.ReachBridge, enginetest.ReachPeer,
			enginetest.SeccompDocker, enginetest.UserNS, enginetest.ReachSocket,
		}, sandboxed: true},
	} {
		t.Run(test.runtime, func(t *testing.T) {
			_, err := oci.New(oci.Config{Name: test.runtime}).Probe(t.Context())
			enginetest.Require(t, test.runtime, err)
			enginetest.Run(t, enginetest.Options{
				Open: func(_ testing.TB, s enginetest.Env) bench.Engine {
					return oci.New(oci.Config{Name: test.runtime, Run: s.Run, Dir: s.Dir, Images: s.Images})
				},
				Unsupported: append(test.unsupported, common...),
				Sandboxed:   test.sandboxed,
			})
		})
	}
}

// The kernel names mounts by their real paths, and the engine may be told
// another. Whatever is unmounted too late is deleted in the mount.
func TestDirBehindLink(t *testing.T) {
	env := enginetest.NewEnv(t, imagetest.Library(t))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(env.Dir), link); err != nil {
		t.Fatal(err)
	}
	e := oci.New(oci.Config{Name: "runc", Run: env.Run, Dir: filepath.Join(link, env.Run), Images: env.Images})
	_, err := e.Probe(t.Context())
	enginetest.Require(t, "runc", err)
	outside := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := e.Prepare(t.Context(), bench.Spec{}); err != nil {
		t.Fatal(err)
	}
	// Something else that is mounted in the engine's directory must not be deleted either.
	point := filepath.Join(env.Dir, "oci-runc", "1", "upper")
	if err := unix.Mount(filepath.Dir(outside), point, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a file was deleted through a mount: %v", err)
	}
	mounts, err := proc.Mounts("/", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		if strings.Contains(m.Point, env.Run) {
			t.Errorf("left: mount at %s", m.Point)
		}
	}
	if left, err := os.ReadDir(env.Dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
