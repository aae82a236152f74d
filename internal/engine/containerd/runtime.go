package containerd

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/typeurl/v2"

	"github.com/tare-bench/tare/internal/bench"
)

// A runtime is what runs a container: a shim, and the OCI runtime that the shim runs if it can run
// several.
type runtime struct {
	name   string // as in a Spec
	shim   string // "io.containerd.NAME.vN"
	binary string // absolute path of the OCI runtime; empty = the shim's own choice

	// sandboxed: the host's kernel does not see the processes inside. The process that containerd
	// reports is the sandbox.
	sandboxed bool
}

// options are the options for the shim.
func (r runtime) options() any {
	if r.binary == "" {
		return nil
	}
	return &options.Options{BinaryName: r.binary}
}

const gvisor = "io.containerd.runsc.v1" // the shim of gVisor

// runtimeOf finds a runtime by its name: the default, the name or path of an OCI runtime, or
// containerd's name of a shim.
func (d daemon) runtimeOf(name string) (runtime, error) {
	refuse := func(err error, advice string, args ...any) (runtime, error) {
		return runtime{}, fmt.Errorf("%w: runtime %q: %w: %s", bench.ErrUnsupported, name, err, fmt.Sprintf(advice, args...))
	}
	switch {
	case name == "", name == "runc":
		return runtime{name: "runc", shim: plugins.RuntimeRuncV2}, nil
	case name == "runsc" && d.has(gvisor):
		return runtime{name: "runsc", shim: gvisor, sandboxed: true}, nil
	case strings.HasPrefix(name, "io.containerd."):
		if !d.has(name) {
			return refuse(fmt.Errorf("containerd cannot find %s", shimBinary(name)), "install it, or use an OCI "+
				"runtime such as crun")
		}
		return runtime{name: name, shim: name, sandboxed: name == gvisor}, nil
	}
	binary, err := d.lookPath(name)
	if err != nil { // tare's own PATH is enough, because the shim gets a full path
		binary, err = exec.LookPath(name)
	}
	if err != nil {
		return refuse(err, "install it, or use another runtime")
	}
	return runtime{
		name: name, shim: plugins.RuntimeRuncV2, binary: binary, sandboxed: filepath.Base(binary) == "runsc",
	}, nil
}

// has reports whether containerd can find the program of a shim.
func (d daemon) has(shim string) bool {
	_, err := d.lookPath(shimBinary(shim))
	return err == nil
}

// shimBinary is the name of a shim's program, derived as containerd does.
func shimBinary(shim string) string {
	parts := strings.Split(shim, ".")
	if len(parts) < 3 {
		return shim
	}
	return "containerd-shim-" + strings.Join(parts[len(parts)-2:], "-")
}

// applied is the runtime that containerd recorded for a container: the name of r if it is r.
func (r runtime) applied(got containers.RuntimeInfo) (string, error) {
	o := new(options.Options)
	if got.Options != nil && got.Options.GetTypeUrl() != "" {
		if err := typeurl.UnmarshalTo(got.Options, o); err != nil {
			return "", fmt.Errorf("options of runtime %s: %w", got.Name, err)
		}
	}
	switch {
	case got.Name == r.shim && o.BinaryName == r.binary:
		return r.name, nil
	case o.BinaryName != "":
		return o.BinaryName, nil
	}
	return got.Name, nil
}
