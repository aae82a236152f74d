package seccomp_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/seccomp"
)

// The profile is what it says: a list of what is allowed, without what can
// harm the host.
func TestProfile(t *testing.T) {
	p := seccomp.Profile()
	allowed := func(name string) bool {
		return slices.ContainsFunc(p.Syscalls, func(s specs.LinuxSyscall) bool {
			return s.Action == specs.ActAllow && len(s.Args) == 0 && slices.Contains(s.Names, name)
		})
	}
	if p.DefaultAction != specs.ActErrno || len(p.Architectures) == 0 {
		t.Errorf("by default %s, on %v; want an error, on this architecture", p.DefaultAction, p.Architectures)
	}
	for name, want := range map[string]bool{
		"read": true, "chroot": true, "mount": false, "io_uring_setup": false, "kexec_load": false,
	} {
		if got := allowed(name); got != want {
			t.Errorf("%s is allowed: %v, want %v", name, got, want)
		}
	}
}

func TestIs(t *testing.T) {
	var read *specs.LinuxSeccomp
	if err := json.Unmarshal([]byte(seccomp.JSON()), &read); err != nil || !seccomp.Is(read) {
		t.Errorf("the profile that was read back (%v) is another one", err)
	}
	other := seccomp.Profile()
	other.DefaultAction = specs.ActLog
	if seccomp.Is(other) || seccomp.Is(nil) {
		t.Error("another filter, or none, is taken for the profile")
	}
}

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		s       bench.Security
		refused bool
	}{
		{bench.Security{}, false},
		{bench.Security{Privileged: true}, false},
		{bench.Security{Seccomp: "unconfined", Privileged: true}, false},
		{bench.Security{Seccomp: bench.SeccompDocker}, false},
		{bench.Security{Seccomp: bench.SeccompDocker, Privileged: true}, true},
		{bench.Security{Seccomp: "/etc/profile.json"}, true},
	} {
		if err := seccomp.Check(test.s); errors.Is(err, bench.ErrUnsupported) != test.refused {
			t.Errorf("%+v: %v, want it refused: %v", test.s, err, test.refused)
		}
	}
}

func TestWrite(t *testing.T) {
	name := filepath.Join(t.TempDir(), "profile.json")
	for range 2 {
		if err := seccomp.Write(name); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != seccomp.JSON() {
		t.Errorf("the file has %d bytes, %v; want the profile", len(got), err)
	}
	if err := seccomp.Write(filepath.Join(name, "below")); err == nil {
		t.Error("a file below a file is written")
	}
}
