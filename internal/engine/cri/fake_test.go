package cri_test

import (
	"context"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	driver "github.com/tare-bench/tare/internal/engine/cri"
	"github.com/tare-bench/tare/internal/image"
)

// An answer is what a fake says to a call.
type answer func(ctx context.Context, request any) (any, error)

// A fake is a server that answers with what a test says. It answers the calls
// that begin every use, so that a test lists only what it is about.
type fake struct {
	cri.UnimplementedRuntimeServiceServer
	cri.UnimplementedImageServiceServer

	mu      sync.Mutex
	answers map[string]answer // by method
	calls   []string
}

// The configuration of a container that containerd tells.
const ociConfig = `{"pid":0,"snapshotter":"overlayfs","runtimeSpec":{"process":{"args":["/bin/x"]},"root":{},"linux":{"maskedPaths":["/proc/acpi"]}}}`

// usual are the answers of a server on which everything works.
func usual() map[string]answer {
	return map[string]answer{
		"Version": say(&cri.VersionResponse{RuntimeName: "fake", RuntimeVersion: "1", RuntimeApiVersion: "v1"}),
		"Status": say(&cri.StatusResponse{Info: map[string]string{
			"config":    `{"sandboxImage":"pause:1","containerd":{"snapshotter":"overlayfs","defaultRuntimeName":"runc","runtimes":{"runc":{}}}}`,
			"cniconfig": `{"Networks":[{"IFName":"lo","Config":{"Plugins":[{"Network":{"type":"loopback"}}]}},{"IFName":"eth0","Config":{"Plugins":[{"Network":{"type":"bridge"}}]}}]}`,
		}}),
		"ImageStatus":      say(&cri.ImageStatusResponse{Image: &cri.Image{Id: "sha256:00ff"}}),
		"ListImages":       say(&cri.ListImagesResponse{}),
		"RunPodSandbox":    say(&cri.RunPodSandboxResponse{PodSandboxId: "p1"}),
		"CreateContainer":  say(&cri.CreateContainerResponse{ContainerId: "c1"}),
		"StartContainer":   say(&cri.StartContainerResponse{}),
		"ContainerStatus":  say(exited(0)),
		"PodSandboxStatus": say(&cri.PodSandboxStatusResponse{Info: map[string]string{"info": `{"pid":0}`}}),
		"StopContainer":    say(&cri.StopContainerResponse{}),
		"RemoveContainer":  say(&cri.RemoveContainerResponse{}),
		"StopPodSandbox":   say(&cri.StopPodSandboxResponse{}),
		"RemovePodSandbox": say(&cri.RemovePodSandboxResponse{}),
		"ListPodSandbox":   say(&cri.ListPodSandboxResponse{}),
		"ListContainers":   say(&cri.ListContainersResponse{}),
	}
}

func say(m any) answer { return func(context.Context, any) (any, error) { return m, nil } }

func refuse(code codes.Code, text string) answer {
	return func(context.Context, any) (any, error) { return nil, status.Error(code, text) }
}

// hang answers nothing until the client gives up.
func hang(ctx context.Context, _ any) (any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// exited is the state of a container that ran.
func exited(code int32) *cri.ContainerStatusResponse {
	return &cri.ContainerStatusResponse{
		Status: &cri.ContainerStatus{
			State: cri.ContainerState_CONTAINER_EXITED, StartedAt: 1, ExitCode: code, ImageRef: "sha256:00ff",
		},
		Info: map[string]string{"info": ociConfig},
	}
}

func (f *fake) serve(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, unknown grpc.UnaryHandler,
) (any, error) {
	method := path.Base(info.FullMethod)
	f.mu.Lock()
	f.calls = append(f.calls, method)
	say := f.answers[method]
	f.mu.Unlock()
	if say == nil {
		return unknown(ctx, request)
	}
	return say(ctx, request)
}

// answer replaces what is said to a method.
func (f *fake) answer(method string, a answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[method] = a
}

func (f *fake) called(method string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.calls, method)
}

// newFake returns a server that says the usual, but for what differs.
func newFake(differs map[string]answer) *fake {
	f := &fake{answers: usual()}
	maps.Copy(f.answers, differs)
	return f
}

// listen serves the fake at a socket until stop is called or the test ends.
func (f *fake) listen(t *testing.T, socket string) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.UnaryInterceptor(f.serve))
	cri.RegisterRuntimeServiceServer(s, f)
	cri.RegisterImageServiceServer(s, f)
	go func() { _ = s.Serve(l) }() // ends with Stop
	t.Cleanup(s.Stop)
	return s.Stop
}

// open returns an engine at a socket, with the images of a stand-in agent.
func open(t *testing.T, socket string) *driver.Engine {
	t.Helper()
	images := image.NewLibrary(t.TempDir(), image.WithAgent([]byte("not a program")))
	e := driver.New(driver.Config{
		Name: "cri", Run: "run-1", Dir: t.TempDir(), Images: images, Endpoint: "unix://" + socket,
	})
	t.Cleanup(func() { _ = e.Close(context.Background()) }) // the server is gone by then
	return e
}

// with returns an engine at a new fake.
func with(t *testing.T, f *fake) *driver.Engine {
	t.Helper()
	socket := newSocket(t)
	f.listen(t, socket)
	return open(t, socket)
}

// newSocket is the path of a socket that does not exist yet, short enough.
func newSocket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a leftover in the temporary directory
	return filepath.Join(dir, "s")
}
