package containerd

import (
	"testing"

	"github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/typeurl/v2"
)

func TestShimBinary(t *testing.T) {
	for shim, want := range map[string]string{
		"io.containerd.runc.v2": "containerd-shim-runc-v2",
		gvisor:                  "containerd-shim-runsc-v1",
		"odd":                   "odd",
	} {
		if got := shimBinary(shim); got != want {
			t.Errorf("shimBinary(%q) = %q, want %q", shim, got, want)
		}
	}
}

// The runtime of a container is what containerd says, whatever was asked for.
func TestAppliedRuntime(t *testing.T) {
	binary := func(name string) typeurl.Any {
		any, err := typeurl.MarshalAny(&options.Options{BinaryName: name})
		if err != nil {
			t.Fatal(err)
		}
		return any
	}
	const runc = "io.containerd.runc.v2"
	crun := runtime{name: "crun", shim: runc, binary: "/bin/crun"}
	for _, test := range []struct {
		got  containers.RuntimeInfo
		want string
	}{
		{containers.RuntimeInfo{Name: runc, Options: binary("/bin/crun")}, "crun"},
		{containers.RuntimeInfo{Name: runc, Options: binary("/bin/youki")}, "/bin/youki"},
		{containers.RuntimeInfo{Name: runc}, runc},
		{containers.RuntimeInfo{Name: gvisor}, gvisor},
	} {
		if got, err := crun.applied(test.got); err != nil || got != test.want {
			t.Errorf("applied(%+v) = %q, %v; want %q", test.got, got, err, test.want)
		}
	}
}
