package bench_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// The name of a series tells of which metric it is.
func TestSeriesOf(t *testing.T) {
	for name, want := range map[string]struct {
		metric    string
		perSecond bool
	}{
		"start":                     {"start", false},
		"load.per_second.time.mean": {"load.time.mean", true},
		"per_second.cs":             {"cs", true},
		"loadper_second.x":          {"loadper_second.x", false},
	} {
		if metric, perSecond := bench.SeriesOf(name); metric != want.metric || perSecond != want.perSecond {
			t.Errorf("%s is of %s, second by second: %t", name, metric, perSecond)
		}
	}
}

func TestAttest(t *testing.T) {
	bind := bench.Mount{Type: "bind", Source: "/a", Target: "/b", ReadOnly: true}
	want := bench.Spec{
		Argv: []string{"/x"}, Network: "none", Runtime: "runc", Mounts: []bench.Mount{bind},
		Limits:   bench.Limits{CPUs: 0.5, CPUSet: "0", Memory: 1 << 20, Pids: 9},
		Security: bench.Security{Seccomp: "unconfined", NoNewPrivileges: true},
	}
	applied := func(change func(*bench.Applied)) bench.Applied {
		a := bench.Applied{
			Argv: want.Argv, Network: want.Network, Runtime: want.Runtime, Mounts: []bench.Mount{bind},
			Limits: want.Limits, Security: want.Security, Image: "sha256:1", Storage: "overlay",
		}
		change(&a)
		return a
	}
	tests := []struct {
		name   string
		want   bench.Spec
		got    bench.Applied
		reason string // part of the error; empty = none
	}{
		{"as asked", want, applied(func(*bench.Applied) {}), ""},
		{"network", want, applied(func(a *bench.Applied) { a.Network = "host" }), "network: asked for none, got host"},
		{"runtime", want, applied(func(a *bench.Applied) { a.Runtime = "crun" }), "runtime: asked for runc, got crun"},
		{"argv", want, applied(func(a *bench.Applied) { a.Argv = []string{"/y"} }), "argv"},
		{"writable mount", want, applied(func(a *bench.Applied) { a.Mounts = []bench.Mount{{Type: "bind", Source: "/a", Target: "/b"}} }), "mount"},
		{"quota", want, applied(func(a *bench.Applied) { a.Limits.CPUs = 1 }), "cpu quota: asked for 0.5, got 1"},
		{"quota as the kernel rounds it", want, applied(func(a *bench.Applied) { a.Limits.CPUs = 0.50001 }), ""},
		{"cpuset", want, applied(func(a *bench.Applied) { a.Limits.CPUSet = "0-1" }), "cpuset"},
		{"memory", want, applied(func(a *bench.Applied) { a.Limits.Memory = 0 }), "memory limit"},
		{"pids", want, applied(func(a *bench.Applied) { a.Limits.Pids = 10 }), "pids limit"},
		{"seccomp", want, applied(func(a *bench.Applied) { a.Security.Seccomp = "" }), "seccomp"},
		{"privileged", want, applied(func(a *bench.Applied) { a.Security.Privileged = true }), "security"},
		{"nothing asked for", bench.Spec{}, bench.Applied{Network: "none", Limits: bench.Limits{CPUSet: "0-1", Pids: 100}}, ""},
		{"a limit that nobody asked for", bench.Spec{}, bench.Applied{Network: "none", Limits: bench.Limits{Memory: 5}}, "memory limit: asked for 0, got 5"},
		{"a bridge that nobody asked for", bench.Spec{}, bench.Applied{Network: "bridge"}, "network"},
		{"size of /dev/shm", bench.Spec{Shm: 4096}, bench.Applied{Network: "none", Shm: 4096}, ""},
		{"another size", bench.Spec{Shm: 4096}, bench.Applied{Network: "none"}, "shm: asked for 4096, got 0"},
		{"the engine's size", bench.Spec{}, bench.Applied{Network: "none", Shm: 64 << 20}, ""},
		{"two at once", want, applied(func(a *bench.Applied) { a.Network, a.Runtime = "host", "crun" }), "network: asked for none, got host; runtime"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := bench.Attest(tt.want, tt.got)
			if tt.reason == "" {
				if err != nil {
					t.Errorf("Attest: %v, want nil", err)
				}
				return
			}
			if !errors.Is(err, bench.ErrMismatch) || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("Attest: %v, want a mismatch with %q", err, tt.reason)
			}
		})
	}
}

func TestValidRunID(t *testing.T) {
	for id, valid := range map[string]bool{
		"20261120-214503-k3f9": true, "a": true, "0": true, strings.Repeat("a", 64): true,
		"": false, "-a": false, "A": false, "a/b": false, "..": false, "a b": false, "a\n": false, "é": false,
		strings.Repeat("a", 65): false,
	} {
		if err := bench.ValidRunID(id); (err == nil) != valid || err != nil && !errors.Is(err, bench.ErrRunID) {
			t.Errorf("ValidRunID(%q) = %v, want valid %v", id, err, valid)
		}
	}
}

// plain is an engine without capabilities, wrapped one with a wrapper's.
type (
	plain   struct{ bench.Engine }
	capable struct{ bench.Engine }
	wrapper struct{ bench.Engine }
)

func (capable) Restart(context.Context) error { return nil }
func (w wrapper) Unwrap() bench.Engine        { return w.Engine }

func TestAsLooksThroughWrappers(t *testing.T) {
	if _, ok := bench.As[bench.Restarter](plain{}); ok {
		t.Error("found a capability that is not there")
	}
	if _, ok := bench.As[bench.Restarter](wrapper{wrapper{capable{}}}); !ok {
		t.Error("did not find a capability below two wrappers")
	}
	if _, ok := bench.As[bench.Restarter](wrapper{plain{}}); ok {
		t.Error("found a capability that a wrapper does not hide")
	}
}

func TestExitString(t *testing.T) {
	for want, e := range map[string]bench.Exit{
		"exit status 3":         {Code: 3},
		"killed by signal 9":    {Code: 137, Signal: 9},
		"killed: out of memory": {Code: 137, Signal: 9, OOM: true},
	} {
		if got := e.String(); got != want {
			t.Errorf("%+v is %q, want %q", e, got, want)
		}
	}
}

func TestPartFailed(t *testing.T) {
	for _, test := range []struct {
		parts         []bench.PartOutcome
		failed, apart bool
	}{
		{nil, false, false},
		{[]bench.PartOutcome{{Part: "disk", Outcome: bench.Unsupported}}, false, false},
		{[]bench.PartOutcome{{Part: "cpu", Outcome: bench.Unsupported}, {Part: "disk", Outcome: bench.Failed}}, true, false},
		{[]bench.PartOutcome{{Part: "disk", Outcome: bench.OK, Regrouped: &bench.Regrouping{}}}, false, true},
	} {
		s := bench.Sample{Parts: test.parts}
		if failed, apart := s.PartFailed(), s.PartRegrouped(); failed != test.failed || apart != test.apart {
			t.Errorf("%+v: failed %v, apart %v; want %v, %v", test.parts, failed, apart, test.failed, test.apart)
		}
	}
}

func TestSampleValue(t *testing.T) {
	s := bench.Sample{Values: []float64{1, math.NaN()}}
	for metric, want := range map[int]bool{-1: false, 0: true, 1: false, 2: false} {
		if _, ok := s.Value(metric); ok != want {
			t.Errorf("Value(%d) is there: %v, want %v", metric, ok, want)
		}
	}
}
