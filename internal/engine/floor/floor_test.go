package floor_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/floor"
)

func open(_ testing.TB, s enginetest.Site) bench.Engine {
	return floor.New(floor.Config{Name: "floor", Run: s.Run, Dir: s.Dir, Images: s.Images})
}

func TestConformance(t *testing.T) {
	enginetest.Run(t, enginetest.Options{
		Open:        open,
		Unsupported: []enginetest.Feature{enginetest.NetworkBridge},
	})
}
