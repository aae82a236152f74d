package native_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/native"
)

func TestConformance(t *testing.T) {
	enginetest.Run(t, enginetest.Options{
		Open: func(_ testing.TB, s enginetest.Site) bench.Engine {
			return native.New(native.Config{Name: "native", Run: s.Run, Dir: s.Dir, Images: s.Images})
		},
		Unsupported: []enginetest.Feature{
			enginetest.NetworkNone, enginetest.NetworkBridge, enginetest.BindMount, enginetest.TmpfsMount,
			enginetest.CPUQuota, enginetest.CPUSet, enginetest.MemoryLimit, enginetest.PidsLimit,
			enginetest.ReadOnlyRoot, enginetest.NoNewPrivileges, enginetest.UserNS, enginetest.Privileged,
			enginetest.Layer,
		},
	})
}
