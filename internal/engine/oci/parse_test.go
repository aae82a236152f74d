package oci

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
)

var update = flag.Bool("update", false, "write the golden files")

// What a runtime is told, in full: a change here changes what is measured.
func TestSpecification(t *testing.T) {
	for name, test := range map[string]struct {
		spec bench.Spec
		caps []string
	}{
		"default": {bench.Spec{}, capabilityNames(agent.DefaultCapabilities)},
		"limited": {bench.Spec{
			Network:  "host",
			Limits:   bench.Limits{CPUs: 0.25, CPUSet: "0-1", Memory: 64 << 20, Pids: 100},
			Security: bench.Security{ReadOnly: true, NoNewPrivileges: true},
			Mounts: []bench.Mount{
				{Type: "bind", Source: "/srv/data", Target: "/data", ReadOnly: true},
				{Type: "tmpfs", Target: "/scratch", Size: 1 << 20},
			},
		}, capabilityNames(agent.DefaultCapabilities)},
		"privileged": {bench.Spec{Security: bench.Security{Privileged: true}}, capabilityNames(1<<0 | 1<<21)},
	} {
		t.Run(name, func(t *testing.T) {
			l := layout{
				mounts: test.spec.Mounts,
				root:   "/run/1/rootfs", cgroup: "/tare/run/runc-1", dir: "/", capabilities: test.caps, cgroupNS: true,
				argv: []string{"/tare-agent", "mark"}, env: []string{defaultPath, "A=1", "B=3"},
				user: specs.User{UID: 7, GID: 8},
			}
			got, err := json.MarshalIndent(l.specification(test.spec), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".json", append(got, '\n'))
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestParseVersion(t *testing.T) {
	got, err := parseVersion("crun", "crun version 1.8.1\ncommit: f8a0\nrundir: /run/crun\nspec: 1.0.0\n+SYSTEMD\n")
	want := runtimeVersion{
		name: "crun", number: "1.8.1", facts: []bench.Label{{Key: "commit", Value: "f8a0"}, {Key: "spec", Value: "1.0.0"}},
	}
	if err != nil || cmp.Diff(want, got, cmp.AllowUnexported(runtimeVersion{})) != "" {
		t.Errorf("parseVersion = %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "GNU ls 1.0", "usage: x"} {
		if _, err := parseVersion("x", bad); err == nil {
			t.Errorf("parseVersion(%q) succeeds", bad)
		}
	}
}

func TestExplain(t *testing.T) {
	failed := errors.New("exit status 1")
	for name, test := range map[string]struct{ log, stderr, want string }{
		"nothing": {"", "", "r create: exit status 1"},
		"log": {`{"level":"warning","msg":"first"}` + "\n" + `{"level":"error","msg":"no such file"}` +
			"\n", "unused", "r create: exit status 1: no such file (+1 lines omitted)"},
		"plain log": {"not json\n", "", "r create: exit status 1: not json"},
		"stderr":    {"", "a\n\nb\nc \n\n", "r create: exit status 1: c (+2 lines omitted)"},
		"stack": {
			"", "Error: a\n\nCaused by:\n  0: b\n\nStack backtrace:\n  7: _start\n",
			"r create: exit status 1: 0: b (+2 lines omitted)",
		},
		"unprintable":  {"", "a\x1b[31m\xffb", "r create: exit status 1: a [31m?b"},
		"long message": {"", string(bytes.Repeat([]byte("x"), 9999)), "r create: exit status 1: " + string(bytes.Repeat([]byte("x"), 500)) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			err := commandFailure([]string{"r", "create"}, failed, []byte(test.log), []byte(test.stderr))
			if err.Error() != test.want || !errors.Is(err, failed) {
				t.Errorf("error = %q, want %q", err, test.want)
			}
		})
	}
}

func TestUserOf(t *testing.T) {
	base := t.TempDir()
	if err := os.Mkdir(filepath.Join(base, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/sh\npostgres:x:70:71::/:/bin/sh\n",
		"group":  "root:x:0:\nwheel:x:10:root,postgres\n",
	} {
		if err := os.WriteFile(filepath.Join(base, "etc", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for user, want := range map[string]specs.User{
		"": {}, "1000": {UID: 1000},
		"70": {UID: 70, GID: 71, AdditionalGids: []uint32{10}}, "postgres": {UID: 70, GID: 71, AdditionalGids: []uint32{10}},
		"1000:2000": {UID: 1000, GID: 2000}, "postgres:wheel": {UID: 70, GID: 10},
	} {
		if got, err := userOf(base, user); err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("userOf(%q) = %+v, %v; want %+v", user, got, err, want)
		}
	}
	for _, user := range []string{"nobody-here", "-1", "0:nobody-here", "4294967296"} {
		if got, err := userOf(base, user); err == nil {
			t.Errorf("userOf(%q) = %+v, want an error", user, got)
		}
	}
}

func TestNumberOf(t *testing.T) {
	for name, want := range map[string]string{
		"runc-1": "1", "runc-20": "20", "runc-01": "", "runc-0": "", "runc-1-2": "", "crun-1": "", "runc-../1": "",
	} {
		if got, ok := numberOf(name, "runc"); got != want || ok != (want != "") {
			t.Errorf("numberOf(%q) = %q, %v; want %q", name, got, ok, want)
		}
	}
}
