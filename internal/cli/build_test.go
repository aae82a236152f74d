package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// anImage is one that somebody else has built, from two files.
type anImage struct {
	program, name, dir string
	env                []string
}

// build builds the image, and returns its ID and how many steps came from the cache.
func (i *anImage) build() (id string, cached int, err error) {
	cmd := exec.Command(i.program, "build", "--tag", i.name, i.dir)
	cmd.Env = i.env
	said, err := cmd.CombinedOutput()
	if err != nil {
		return "", 0, fmt.Errorf("%w: %s", err, said)
	}
	out, err := exec.Command(i.program, "image", "inspect", "--format", "{{.Id}}", i.name).Output()
	return strings.TrimSpace(string(out)), strings.Count(string(said), "Using cache") + strings.Count(string(said), " CACHED"), err
}

func newImage(t *testing.T, engine, builder string) *anImage {
	t.Helper()
	kit := "0"
	if builder == "buildkit" {
		kit = "1"
	}
	i := &anImage{
		engine, fmt.Sprintf("localhost/tare-test-%d-%s%s:latest", os.Getpid(), engine, builder), t.TempDir(),
		append(os.Environ(), "BUILDKIT_PROGRESS=plain", "DOCKER_BUILDKIT="+kit),
	}
	for name, text := range map[string]string{
		"a": i.name + " a", "b": i.name + " b", "Dockerfile": "FROM scratch\nCOPY a /a\nCOPY b /b\n",
	} {
		if err := os.WriteFile(filepath.Join(i.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command(engine, "image", "rm", i.name).CombinedOutput(); err != nil && !t.Skipped() {
			t.Errorf("%v: %s", err, out)
		}
	})
	return i
}

// What others have built stays, and so does what the builder keeps of it: beside builds, beside one on top of it, and
// when 'tare clean' removes what a killed run has left.
func TestBuildLeavesOthersAlone(t *testing.T) {
	t.Parallel() // it asserts no time
	for _, b := range []struct{ engine, builder string }{{"docker", "classic"}, {"docker", "buildkit"}, {"podman", "auto"}} {
		t.Run(b.engine+" "+b.builder, func(t *testing.T) {
			require(t, b.engine)
			i := newImage(t, b.engine, b.builder)
			before, _, err := i.build()
			if b.builder == "buildkit" && err != nil && strings.Contains(err.Error(), "buildx") {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			p := newTestEnv(t)
			build := func(more ...string) []string {
				return append([]string{
					"run", "build", "--engine", b.engine, "--param", "builder=" + b.builder, "--param", "files=4", "--size", "64KiB",
					"--param", "steps=2", "--warmup", "0", "--washout", "off", "--precision", "off", "--no-control",
				}, more...)
			}
			p.must(t, build("--blocks", "1")...)
			own := filepath.Join(t.TempDir(), "Dockerfile")
			if err := os.WriteFile(own, []byte("FROM "+i.name+"\nCOPY Dockerfile /own\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			p.must(t, build("--blocks", "1", "--param", "file="+own)...)
			r := p.begin(t, build("--blocks", "60")...)
			p.await(t, r, 1)
			if err := r.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			p.must(t, "clean")
			after, cached, err := i.build()
			if after != before || cached != 2 || err != nil {
				t.Errorf("the image was %s and is %s, %d of 2 steps are in the cache: %v", before, after, cached, err)
			}
			p.awaitNothingLeft(t)
		})
	}
}
