// Package seccomp is one filter of system calls for all engines: the default profile that Docker
// and containerd share, in the version of the containerd module that tare is built with. The
// engines' own defaults differ between engines and versions; with this filter they are compared on
// equal terms.
package seccomp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tare-bench/tare/internal/bench"
)

// Profile is the filter that bench.SeccompDocker means, for a container that is not privileged. Its
// JSON is also a valid profile for Docker and Podman.
func Profile() *specs.LinuxSeccomp {
	// This is the only capability among Docker's defaults that allows system calls which the
	// profile would otherwise forbid.
	const chroot = "CAP_SYS_CHROOT"
	return seccomp.DefaultProfile(&specs.Spec{
		Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: []string{chroot}}},
		Linux:   &specs.Linux{},
	})
}

// JSON is the profile as text.
func JSON() string { return textOf(Profile()) }

// Is reports whether a container's filter is the profile.
func Is(got *specs.LinuxSeccomp) bool { return textOf(got) == JSON() }

func textOf(p *specs.LinuxSeccomp) string {
	text, _ := json.Marshal(p) // cannot fail: it has only words and numbers
	return string(text)
}

// Check refuses unknown profiles, and any profile for a privileged container, which has no filter.
// The error wraps bench.ErrUnsupported.
func Check(s bench.Security) error {
	switch {
	case s.Seccomp != "" && s.Seccomp != "unconfined" && s.Seccomp != bench.SeccompDocker:
		return fmt.Errorf("%w: seccomp %q: use unconfined, %s or the engine's default",
			bench.ErrUnsupported, s.Seccomp, bench.SeccompDocker)
	case s.Seccomp == bench.SeccompDocker && s.Privileged:
		return fmt.Errorf("%w: seccomp %s: a privileged container has no filter: use only one of the two",
			bench.ErrUnsupported, s.Seccomp)
	}
	return nil
}

// Write writes the profile to a file, for engines that read one. It is not an error if the file
// exists.
func Write(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(JSON())
	return errors.Join(err, f.Close())
}
