package docker_test

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
)

func TestConformance(t *testing.T) {
	_, err := docker.New(docker.Config{Name: "docker"}).Probe(t.Context())
	enginetest.Require(t, "docker", err)
	unsupported := []enginetest.Feature{enginetest.UserNS}
	if restricted(t) {
		unsupported = append(unsupported, enginetest.Privileged)
	}
	enginetest.Run(t, enginetest.Options{
		Open: func(_ testing.TB, s enginetest.Site) bench.Engine {
			return docker.New(docker.Config{Name: "docker", Run: s.Run, Dir: s.Dir, Images: s.Images})
		},
		Unsupported: unsupported,
	})
}

// restricted reports whether this machine withholds capabilities even from
// root, and so from an engine that was started on it.
func restricted(t *testing.T) bool {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	last, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(last)))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(status, []byte("CapBnd:"))
	set, err := strconv.ParseUint(string(bytes.Fields(rest)[0]), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return set != 1<<(n+1)-1
}
