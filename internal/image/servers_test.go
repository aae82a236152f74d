package image_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/floor"
	"github.com/tare-bench/tare/internal/engine/oci"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// TestServers packs servers of this host with a client, and asks each of them
// something in a container of each kind.
func TestServers(t *testing.T) {
	for _, test := range []struct {
		server, client string
		ask            []string
		want           string
	}{
		{"nginx", "curl", []string{"curl", "--silent", "http://127.0.0.1/"}, "nginx, packed by tare"},
		{"redis-server", "redis-cli", []string{"redis-cli", "PING"}, "PONG"},
		{"postgres", "psql", []string{"psql", "-h", "127.0.0.1", "-U", "postgres", "-c", "select 6*7"}, "42"},
	} {
		t.Run(test.server, func(t *testing.T) {
			ref := server(t, test.server, test.client)
			for name, open := range servingEngines() {
				if testing.Short() && name == "docker" && test.server != "redis-server" {
					continue // other tests have nginx and PostgreSQL there
				}
				t.Run(name, func(t *testing.T) {
					e := open(enginetest.NewEnv(t, imagetest.Library(t)))
					enginetest.Use(t, e)
					serves(t, e, ref, test.ask, test.want)
				})
			}
		})
	}
}

// servingEngines are an engine without a program of its own, one with a runtime,
// and one with a service.
func servingEngines() map[string]func(s enginetest.Env) bench.Engine {
	return map[string]func(s enginetest.Env) bench.Engine{
		"floor": func(s enginetest.Env) bench.Engine {
			return floor.New(floor.Config{Name: "floor", Run: s.Run, Dir: s.Dir, Images: s.Images})
		},
		"runc": func(s enginetest.Env) bench.Engine {
			return oci.New(oci.Config{Name: "runc", Run: s.Run, Dir: s.Dir, Images: s.Images})
		},
		"docker": func(s enginetest.Env) bench.Engine {
			return docker.New(docker.Config{Name: "docker", Run: s.Run, Dir: s.Dir, Images: s.Images})
		},
	}
}

// server packs a server and a client into an archive, and returns its reference.
func server(t *testing.T, programs ...string) string {
	t.Helper()
	img, err := image.NewLibrary(t.TempDir()).Pack(t.Context(), programs...)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip(err) // it is not installed
	}
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := img.WriteDockerArchive(&out, ""); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return "tar:" + name
}

// serves starts the server, as the image says, and asks until it answers.
func serves(t *testing.T, e bench.Engine, ref string, ask []string, want string) {
	t.Helper()
	exec, ok := bench.As[bench.Execer](e)
	if !ok {
		t.Fatalf("%s cannot run a client in a container", e.Name())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := enginetest.Create(t, e, bench.Spec{Image: ref})
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = said.Close() }() // it is for the failure below
	if err := c.Attach(ctx, said, said); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	last := "nothing"
	for {
		var answer, complaint bytes.Buffer
		exit, err := exec.Exec(ctx, c, ask, &answer, &complaint)
		if err == nil && exit.Code == 0 && strings.Contains(answer.String(), want) {
			return
		}
		if ctx.Err() != nil || errors.Is(err, bench.ErrUnsupported) {
			log, _ := os.ReadFile(said.Name())
			t.Fatalf("no answer %q but %s, and at last %v; the server said:\n%s", want, last, err, log)
		}
		last = fmt.Sprintf("%q, %q, %v, %v", answer.String(), complaint.String(), exit, err)
		time.Sleep(50 * time.Millisecond)
	}
}
