package cri_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tare-bench/tare/internal/bench"
)

// The server is asked for exactly what the Spec says.
func TestTranslation(t *testing.T) {
	var sandbox *cri.RunPodSandboxRequest
	var container *cri.CreateContainerRequest
	f := newFake(nil)
	f.answer("RunPodSandbox", func(_ context.Context, request any) (any, error) {
		sandbox = request.(*cri.RunPodSandboxRequest)
		return &cri.RunPodSandboxResponse{PodSandboxId: "p1"}, nil
	})
	f.answer("CreateContainer", func(_ context.Context, request any) (any, error) {
		container = request.(*cri.CreateContainerRequest)
		return &cri.CreateContainerResponse{ContainerId: "c1"}, nil
	})
	spec := bench.Spec{
		Image: "own", Argv: []string{"/bin/x", "a"}, Env: []string{"A=b=c"}, Dir: "/d", Network: "bridge", Runtime: "runc",
		Mounts:   []bench.Mount{{Type: "bind", Source: "/s", Target: "/t", ReadOnly: true}},
		Limits:   bench.Limits{CPUs: 0.5, CPUSet: "1", Memory: 1 << 20},
		Security: bench.Security{Seccomp: "unconfined", NoNewPrivileges: true, ReadOnly: true},
	}
	if _, err := with(t, f).Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	name := sandbox.Config.Metadata.GetName()
	if container.PodSandboxId != "p1" || sandbox.RuntimeHandler != "runc" || name == "" {
		t.Errorf("sandbox %q of runtime %q, named %q", container.PodSandboxId, sandbox.RuntimeHandler, name)
	}
	namespaces := &cri.NamespaceOption{Network: cri.NamespaceMode_POD, Pid: cri.NamespaceMode_CONTAINER}
	wantSandbox := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Uid: name, Namespace: "tare"},
		Hostname:     "tare",
		LogDirectory: sandbox.Config.LogDirectory,
		Labels:       map[string]string{"tare.run": "run-1", "tare.name": name},
		Linux: &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{
			NamespaceOptions: namespaces, Seccomp: &cri.SecurityProfile{},
		}},
	}
	wantContainer := &cri.ContainerConfig{
		Metadata:   &cri.ContainerMetadata{Name: name + "-1"},
		Image:      &cri.ImageSpec{Image: "own"},
		Command:    []string{"/bin/x"},
		Args:       []string{"a"},
		WorkingDir: "/d",
		Envs:       []*cri.KeyValue{{Key: "A", Value: []byte("b=c")}},
		Mounts:     []*cri.Mount{{ContainerPath: "/t", HostPath: "/s", Readonly: true}},
		Labels:     map[string]string{"tare.run": "run-1", "tare.name": name + "-1"},
		LogPath:    name + "-1.log",
		Linux: &cri.LinuxContainerConfig{
			Resources: &cri.LinuxContainerResources{
				CpuPeriod: 100000, CpuQuota: 50000, CpusetCpus: "1", MemoryLimitInBytes: 1 << 20, MemorySwapLimitInBytes: -1,
			},
			SecurityContext: &cri.LinuxContainerSecurityContext{
				NamespaceOptions: namespaces, ReadonlyRootfs: true, NoNewPrivs: true,
				Seccomp: &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Unconfined},
			},
		},
	}
	if diff := cmp.Diff(wantSandbox.String(), sandbox.Config.String()); diff != "" {
		t.Errorf("sandbox (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantContainer.String(), container.Config.String()); diff != "" {
		t.Errorf("container (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(sandbox.Config.String(), container.SandboxConfig.String()); diff != "" {
		t.Errorf("the container's sandbox is another (-want +got):\n%s", diff)
	}
}

// A pod's network is what the server's configuration says, and nothing else.
func TestNetworks(t *testing.T) {
	for name, test := range map[string]struct {
		cni     string
		network string
		ok      bool
	}{
		"default":                 {`{}`, "", true},
		"host":                    {`{}`, "host", true},
		"none":                    {`{}`, "none", false},
		"bridge":                  {`{"Networks":[{"IFName":"eth0","Config":{"Plugins":[{"Network":{"type":"bridge"}}]}}]}`, "bridge", true},
		"bridge of another":       {`{"Networks":[{"IFName":"eth0","Config":{"Plugins":[{"Network":{"type":"ptp"}}]}}]}`, "bridge", false},
		"bridge not configured":   {`{"Networks":[{"IFName":"lo","Config":{"Plugins":[{"Network":{"type":"loopback"}}]}}]}`, "bridge", false},
		"bridge of a mute server": {``, "bridge", false},
		"bridge of a mad server":  {`{"Networks":7}`, "bridge", false},
		"bridge without a plugin": {`{"Networks":[{"IFName":"eth0","Config":{}}]}`, "bridge", false},
		"bridge that comes second": {
			`{"Networks":[{"IFName":"eth0","Config":{"Plugins":[{"Network":{"type":"calico"}},{"Network":{"type":"bridge"}}]}}]}`, "bridge", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(map[string]answer{"Status": say(&cri.StatusResponse{Info: map[string]string{"cniconfig": test.cni}})})
			spec := own()
			spec.Network = test.network
			_, err := with(t, f).Create(t.Context(), spec)
			if (err == nil) != test.ok || !test.ok && !errors.Is(err, bench.ErrUnsupported) {
				t.Errorf("Create = %v, want success %v, or bench.ErrUnsupported", err, test.ok)
			}
		})
	}
}

// A server that is no containerd cannot be given an image. If it has one of the
// same digest, that one is used.
func TestImageOfAServerThatCannotLoad(t *testing.T) {
	e := with(t, newFake(nil))
	if err := e.Prepare(t.Context(), bench.Spec{}); !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("Prepare = %v, want bench.ErrUnsupported", err)
	}
	var made string
	f := newFake(map[string]answer{
		"ImageStatus": func(_ context.Context, request any) (any, error) {
			return &cri.ImageStatusResponse{Image: &cri.Image{Id: request.(*cri.ImageStatusRequest).Image.Image}}, nil
		},
		"CreateContainer": func(_ context.Context, request any) (any, error) {
			made = request.(*cri.CreateContainerRequest).Config.Image.Image
			return &cri.CreateContainerResponse{ContainerId: "c1"}, nil
		},
	})
	if err := with(t, f).Prepare(t.Context(), bench.Spec{}); err != nil {
		t.Fatal(err)
	}
	if len(made) != 64 {
		t.Errorf("a container of the image %q, want its ID", made)
	}
}
