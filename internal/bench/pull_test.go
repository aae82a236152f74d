package bench_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

func TestPulledBy(t *testing.T) {
	for image, want := range map[string]string{
		"127.0.0.1:5000/" + bench.PullRepository("20260102-x", "docker") + ":1": "20260102-x",
		"127.0.0.1:5000/tare-run/docker@sha256:00":                              "run",
		"127.0.0.1/tare-run/docker:1":                                           "",
		"localhost:5000/tare-run/docker:1":                                      "",
		"10.0.0.1:5000/tare-run/docker:1":                                       "",
		"127.0.0.1:5000/tare-run":                                               "",
		"127.0.0.1:5000/tare-run/":                                              "",
		"127.0.0.1:5000/tare-../docker:1":                                       "",
		"127.0.0.1:5000/tare-/docker:1":                                         "",
		"127.0.0.1:5000/mine/docker:1":                                          "",
		"debian:12":                                                             "",
		"":                                                                      "",
	} {
		if got := bench.PulledBy(image); got != want {
			t.Errorf("PulledBy(%q) = %q, want %q", image, got, want)
		}
	}
}
