package compose

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
)

func TestVersion(t *testing.T) {
	for text, want := range map[string]string{
		"Docker Compose version v2.39.1\n":                                                              "2.39.1",
		"Docker Compose version 5.1.2\n":                                                                "5.1.2",
		"docker-compose version 1.29.2, build unknown\ndocker-py version: 5.0.3\n":                      "1.29.2",
		"['podman', '--version', '']\nusing podman version: 4.3.1\npodman-composer version  1.0.3\nx\n": "1.0.3",
		"podman-compose version 1.5.0\npodman version 5.4.2\n":                                          "1.5.0",
		"": "of unknown version", "no version here": "of unknown version", "compose version \x1b[31m": "of unknown version",
	} {
		if got := versionIn([]byte(text)); got != want {
			t.Errorf("%q is version %q, want %q", text, got, want)
		}
	}
}

func TestLastLines(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "",
		" \n\n":             "",
		"a":                 `; it printed last "a"`,
		"1\n2\n3\n4\n5\n\n": `; it printed last "2\n3\n4\n5"`,
		"\x1b[2Jx\r\n":      `; it printed last "\x1b[2Jx"`,
	} {
		if got := lastLines([]byte(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := lastLines([]byte(strings.Repeat("x", 9999))); len(got) > 450 {
		t.Errorf("%d bytes", len(got))
	}
}

// What is written keeps only its end, whatever comes in one piece or many.
func TestEnding(t *testing.T) {
	for _, writes := range [][]string{{"abcdef"}, {"ab", "cd", "ef"}, {"abcde", "f"}, {"a", "bcdef"}} {
		e := &ending{limit: 3}
		for _, w := range writes {
			if n, err := e.Write([]byte(w)); n != len(w) || err != nil {
				t.Errorf("Write = %d, %v", n, err)
			}
		}
		if string(e.text) != "def" {
			t.Errorf("%q: %q", writes, e.text)
		}
	}
}

// A generated file says what its services are, also where names have what compose takes for variables.
func TestGenerated(t *testing.T) {
	spec := bench.Spec{
		Argv: []string{"/a", "serve", "/x$y/s1"}, Mounts: []bench.Mount{{Type: "bind", Source: "/x$y", Target: "/x$y"}},
	}
	text, err := generated([]service{{"s1", spec}, {"s2", spec}}, bench.Composing{
		Image: "tare.local/r/docker/agent:latest", Ulimits: map[string]uint64{"nofile": 1 << 40},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := yaml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	one := func(more map[string]any) map[string]any {
		more["image"] = "tare.local/r/docker/agent:latest"
		more["entrypoint"] = []any{"/a"}
		more["command"] = []any{"serve", "/x$$y/s1"}
		more["ulimits"] = map[string]any{"nofile": uint64(1 << 40)}
		more["volumes"] = []any{map[string]any{"type": "bind", "source": "/x$$y", "target": "/x$$y"}}
		return more
	}
	want := map[string]any{"services": map[string]any{
		"s1": one(map[string]any{}), "s2": one(map[string]any{"depends_on": []any{"s1"}}),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A file that would take somebody else's things is refused, before it is started.
func TestDefinition(t *testing.T) {
	const project = "tare-r-1"
	const one = "services: {a: {image: x}}\n"
	for text, says := range map[string]string{
		one: "",
		"x: &all {image: x}\nservices:\n  a:\n    <<: *all\n    restart: always\n":   "",
		"services: {a: {image: x, container_name: shop}}":                            `service a has the fixed name "shop"`,
		"x: &all {container_name: shop, image: x}\nservices: {a: {<<: *all}}":        `service a has the fixed name "shop"`,
		"services: {a: {build: .}}":                                                  "service a has no image",
		"services: {a: {image: x, pull_policy: always}}":                             `service a has the pull_policy "always"`,
		"services: {a: {image: x, build: ., pull_policy: build}}":                    `service a has the pull_policy "build"`,
		"services: {a: {image: x, pull_policy: never}}":                              "",
		"services: {a: {image: x, extends: {file: b.yaml, service: b}}}":             "service a extends one of another file",
		"services: {a: {image: x, extends: b}, b: {image: x}}":                       "",
		"services: {a: {image: x, extends: {service: b}}, b: {image: x}}":            "",
		one + "include: [b.yaml]":                                                    "it includes other files",
		one + "networks: {n: {name: net}}":                                           `network n has the fixed name "net"`,
		one + "networks: {n: {name: tare-r-1_n}, m: null}":                           "",
		one + "volumes: {v: {name: data}}":                                           `volume v has the fixed name "data"`,
		one + "volumes: {v: {name: data, external: false}}":                          `volume v has the fixed name "data"`,
		one + "volumes: {v: {name: data, external: true}, w: {external: {name: d}}}": "",
	} {
		d, err := parse([]byte(text))
		if err == nil {
			err = d.check(project)
		}
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// Whatever a file has, it is parsed or refused.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"services: {a: {image: x}}", "services: [", "a: &a [*a]", "services: null\nnetworks: {n: {external: {name: x}}}",
		"services: {a: {<<: [1]}}", "- 1", "services: {a: 1}", "? [a]\n: b",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		if d, err := parse(text[:min(len(text), 1<<10)]); err == nil {
			_ = d.check("tare-r-1") // it must return
		}
	})
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		dir: "is not a file", "/dev/zero": "is not a file",
		large: "is larger than 64 KiB", filepath.Join(dir, "none"): "no such file",
	} {
		if _, err := readFile(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("COMPOSE_FILE", "x")
	t.Setenv("DOCKER_CONTEXT", "y")
	t.Setenv("COMPOSE_PROFILES", "dev")
	env := environment([]string{"DOCKER_HOST=z"})
	for _, pair := range env {
		if strings.HasPrefix(pair, "COMPOSE_FILE=") || pair == "DOCKER_CONTEXT=y" || pair == "COMPOSE_PROFILES=dev" {
			t.Errorf("kept %s", pair)
		}
	}
	if !slices.Contains(env, "COMPOSE_PROFILES=") { // a file .env may choose some
		t.Error("profiles are not said to be none")
	}
}
