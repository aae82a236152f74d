package oci_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/oci"
)

func TestConformance(t *testing.T) {
	for _, name := range []string{"runc", "crun"} {
		t.Run(name, func(t *testing.T) {
			_, err := oci.New(oci.Config{Name: name}).Probe(t.Context())
			enginetest.Require(t, name, err)
			enginetest.Run(t, enginetest.Options{
				Open: func(_ testing.TB, s enginetest.Site) bench.Engine {
					return oci.New(oci.Config{Name: name, Run: s.Run, Dir: s.Dir, Images: s.Images})
				},
				Unsupported: []enginetest.Feature{enginetest.NetworkBridge, enginetest.UserNS},
			})
		})
	}
}
