package podman_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/apitest"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/podman"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// BenchmarkOverhead compares create, start, wait and remove through the driver
// with a bare loop over the same API calls, with the body that the driver sends.
// The bare loop waits as the API does by itself, with the driver's interval of
// looking: before Podman 5.3 the driver waits for the monitor first and comes
// out below 1.
func BenchmarkOverhead(b *testing.B) {
	_, err := podman.New(podman.Config{Name: "podman"}).Probe(b.Context())
	enginetest.Require(b, "podman", err)
	socket := serviceOfTest(b)
	env := enginetest.NewEnv(b, imagetest.Library(b))
	e := podman.New(podman.Config{
		Name: "podman", Run: env.Run, Dir: env.Dir, Images: env.Images, Host: "unix://" + socket,
	})
	enginetest.Use(b, e)
	spec := bench.Spec{Argv: []string{agent.Path, "exit", "0"}}
	body, err := podman.Body(b.Context(), e, spec)
	if err != nil {
		b.Fatal(err)
	}
	bare := apitest.BareLoop{
		Socket: socket,
		Root:   "/v4.0.0/libpod",
		Create: body,
		Calls: []string{
			"POST /containers/ID/start", "POST /containers/ID/wait?condition=exited&interval=20ms",
			"DELETE /containers/ID?force=true&volumes=true&timeout=0",
		},
	}
	enginetest.Overhead(b, enginetest.DriverSide(e, spec), bare.Loop())
}

// serviceOfTest starts a service and returns its socket.
func serviceOfTest(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "tare-bench-")
	if err != nil {
		tb.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.Command("podman", "system", "service", "-t", "0", "unix://"+socket)
	cmd.Dir = "/"
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill() // fails only if it has ended
		_ = cmd.Wait()         // the signal is its error
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close() // nothing was written
			return socket
		}
		if time.Since(begin) > time.Minute {
			tb.Fatal(err)
		}
	}
}
