package kubernetes

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet/kube"
)

// What other checks only where there is a cluster: package app runs the suite of engines there.
var _ interface {
	bench.Cleaner
	bench.ProcessReporter
	bench.Addresser
	bench.Verifier
} = (*Engine)(nil)

// This machine is the node of a name, or the one that has booted when it has.
func TestThis(t *testing.T) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Skip(err)
	}
	node := func(name, boot string) (n kube.Node) {
		n.Name, n.Status.Info.Boot = name, strings.TrimSpace(boot)
		return n
	}
	here, twin, other := node("here", string(boot)), node("twin", string(boot)), node("other", "x")
	for _, c := range []struct {
		nodes []kube.Node
		name  string
		want  string // the node's name
		err   string
	}{
		{[]kube.Node{other, here}, "", "here", ""},
		{[]kube.Node{other, here}, "other", "", `node "other" is another machine`},
		{[]kube.Node{other, here}, "absent", "", `no node "absent"`},
		{[]kube.Node{other, node("unknown", "")}, "", "", "none of the cluster's 2 nodes is this machine"},
		{[]kube.Node{here, twin}, "", "", "node=here"},
		{[]kube.Node{here, twin}, "twin", "twin", ""},
	} {
		got, err := this(c.nodes, c.name)
		name, text := "", ""
		if err == nil {
			name = got.Name
		} else {
			text = err.Error()
		}
		if name != c.want || (text == "") != (c.err == "") || !strings.Contains(text, c.err) {
			t.Errorf("of %d nodes, %q: %q, %q; want %q, %q", len(c.nodes), c.name, name, text, c.want, c.err)
		}
	}
}

// What a pod was asked for is what is read back of it, whatever dollars there are in it.
func TestPod(t *testing.T) {
	e := New(Config{Name: "kubernetes", Run: "run", Dir: t.TempDir()})
	for name, spec := range map[string]bench.Spec{
		"plain":   {},
		"dollars": {Argv: []string{"/bin/x", "$(HOME)", "$$", "a$b"}, Env: []string{"A=$(B)", "B=1"}},
		"limits":  {Limits: bench.Limits{CPUs: 0.25, Memory: 64 << 20}},
		"bridge":  {Network: "bridge"},
		"security": {Security: bench.Security{
			Seccomp: "unconfined", ReadOnly: true, NoNewPrivileges: true,
		}},
		"mounts": {Mounts: []bench.Mount{
			{Type: "bind", Source: "/srv", Target: "/a"}, {Type: "bind", Source: "/etc", Target: "/b", ReadOnly: true},
		}},
		"layer": {Storage: "layer"},
	} {
		pod := e.pod(spec, nil, "tare.local/x", "p", "node")
		got, err := applied(pod, spec, "", "tare.local/x")
		if spec.Network == "" {
			spec.Network = "host"
		}
		if err = errors.Join(err, bench.Attest(spec, got)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(pod.Spec.Gates) != 1 || pod.Spec.RestartPolicy != "Never" || pod.Labels[bench.RunLabel] != "run" {
			t.Errorf("%s: the pod is %+v", name, pod)
		}
		if name == "dollars" && pod.Spec.Containers[0].Env[0].Value != "$$(B)" {
			t.Errorf("a variable's value is expanded: %+v", pod.Spec.Containers[0].Env)
		}
	}
	for name, change := range map[string]func(*kube.PodSpec){
		"a limit, as by a LimitRange": func(p *kube.PodSpec) {
			p.Containers[0].Resources.Limits = kube.Resources{"cpu": "500m"}
		},
		"a request, as by a LimitRange": func(p *kube.PodSpec) {
			p.Containers[0].Resources.Requests = kube.Resources{"cpu": "100m"}
		},
		"a mount": func(p *kube.PodSpec) {
			p.Volumes = append(p.Volumes, kube.Volume{Name: "scratch"})
			p.Containers[0].Mounts = append(p.Containers[0].Mounts, kube.Mount{Name: "scratch", Path: bench.DataDir})
		},
		"no gate":           func(p *kube.PodSpec) { p.Gates = nil },
		"another image":     func(p *kube.PodSpec) { p.Containers[0].Image = "mirror/x" },
		"a pull":            func(p *kube.PodSpec) { p.Containers[0].PullPolicy = "Always" },
		"a sidecar":         func(p *kube.PodSpec) { p.InitContainers = []kube.Container{{Name: "proxy"}} },
		"a second gate":     func(p *kube.PodSpec) { p.Gates = append(p.Gates, kube.Gate{Name: "queue"}) },
		"another command":   func(p *kube.PodSpec) { p.Containers[0].Command = []string{"/bin/y"} },
		"the pods' network": func(p *kube.PodSpec) { p.HostNetwork = false },
	} {
		spec := bench.Spec{Argv: []string{"/bin/x"}, Network: "host"}
		pod := e.pod(spec, nil, "x", "p", "node")
		change(&pod.Spec)
		got, err := applied(pod, spec, "", "x")
		if err = errors.Join(err, bench.Attest(spec, got)); !errors.Is(err, bench.ErrMismatch) {
			t.Errorf("%s that nobody asked for: %v, want ErrMismatch", name, err)
		}
	}
}

// A kubelet is known by its name, or as one of the programs that a program of many has.
func TestIsKubelet(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want bool
	}{
		{"kubelet", []string{"/usr/bin/kubelet", "--config=x"}, true},
		{"k3s-agent", []string{"/usr/local/bin/k3s agent"}, true},
		{"hyperkube", []string{"/usr/bin/hyperkube", "kubelet", "--config=x"}, true},
		{"kubernetes-v1.3", []string{"/opt/kubernetes-v1.34.4", "kubelet", "--config=x"}, true},
		{"kubernetes-v1.3", []string{"/opt/kubernetes-v1.34.4", "kube-apiserver"}, false},
		{"pgrep", []string{"pgrep", "kubelet"}, false},
		{"sudo", []string{"sudo", "kubelet"}, false},
		{"kworker/0:1", nil, false},
	} {
		if got := isKubelet(c.name, c.args); got != c.want {
			t.Errorf("%s %q: %v, want %v", c.name, c.args, got, c.want)
		}
	}
}

// A container has run if it runs or has ended, and has failed if nothing will change that by itself.
func TestHasRun(t *testing.T) {
	with := func(s kube.ContainerState) *kube.Pod {
		p := &kube.Pod{}
		p.Status.Containers = []kube.ContainerStatus{{Name: containerName, ID: "containerd://1", State: s}}
		return p
	}
	unscheduled, evicted := &kube.Pod{}, &kube.Pod{}
	unscheduled.Status.Conditions = []kube.Condition{
		{Type: "PodScheduled", Status: "False", Reason: "Unschedulable", Message: "0/3 nodes"},
	}
	evicted.Status.Phase, evicted.Status.Reason, evicted.Status.Message = "Failed", "Evicted", "disk"
	for _, c := range []struct {
		name string
		pod  *kube.Pod
		gone bool
		ran  bool
		err  string
	}{
		{name: "not heard of"},
		{name: "made", pod: &kube.Pod{}},
		{name: "waits", pod: with(kube.ContainerState{Waiting: &kube.Waiting{Reason: "ContainerCreating"}})},
		{name: "runs", pod: with(kube.ContainerState{Running: &kube.Running{}}), ran: true},
		{
			name: "has ended", ran: true,
			pod: with(kube.ContainerState{Terminated: &kube.Terminated{Reason: "Error", ExitCode: 3}}),
		},
		{
			name: "is lost", err: "ContainerStatusUnknown",
			pod: with(kube.ContainerState{Terminated: &kube.Terminated{Reason: "ContainerStatusUnknown"}}),
		},
		{
			name: "no program", err: "no such file",
			pod: with(kube.ContainerState{Terminated: &kube.Terminated{Reason: "StartError", Message: "no such file"}}),
		},
		{
			name: "no image", err: "ErrImageNeverPull",
			pod: with(kube.ContainerState{Waiting: &kube.Waiting{Reason: "ErrImageNeverPull"}}),
		},
		{name: "no place", pod: unscheduled, err: "0/3 nodes"},
		{name: "evicted", pod: evicted, err: "Evicted"},
		{name: "gone", pod: &kube.Pod{}, gone: true, err: "gone"},
	} {
		id, ran, err := hasRun(c.pod, c.gone)
		if ran != c.ran || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) ||
			ran && id != "containerd://1" {
			t.Errorf("%s: %q, %v, %v; want %v, %q", c.name, id, ran, err, c.ran, c.err)
		}
	}
}

// Who waits hears of each change, of the end of all of them, and of the end of his own patience.
func TestAwait(t *testing.T) {
	p := newPods()
	p.deafen(false)
	pod := func(phase string) kube.Change {
		x := &kube.Pod{Meta: kube.Meta{Name: "a"}}
		x.Status.Phase = phase
		return kube.Change{Pod: x}
	}
	runs := func(pod *kube.Pod, _ bool) (bool, error) { return pod != nil && pod.Status.Phase == "Running", nil }
	heard := make(chan error)
	go func() { heard <- p.await(t.Context(), p.now(), "a", runs) }()
	p.tell(pod("Pending"))
	p.tell(pod("Running"))
	if err := <-heard; err != nil {
		t.Error(err)
	}
	p.forget("a")
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := p.await(short, p.now(), "a", runs); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a pod of which nothing is heard: %v", err)
	}
	waits := make(chan struct{})
	go func() {
		asked := false
		heard <- p.await(t.Context(), p.now(), "a", func(pod *kube.Pod, gone bool) (bool, error) {
			if !asked {
				asked = true
				close(waits)
			}
			return runs(pod, gone)
		})
	}()
	<-waits
	p.deafen(true)
	p.tell(pod("Running"))
	if err := <-heard; !errors.Is(err, errGap) {
		t.Errorf("a pod that may have been heard of late: %v", err)
	}
	without := p.now()
	p.deafen(false)
	if err := p.await(t.Context(), without, "a", runs); !errors.Is(err, errGap) {
		t.Errorf("what began without a connection: %v", err)
	}
	if err := p.await(t.Context(), p.now(), "a", runs); err != nil {
		t.Errorf("what began when there was one again: %v", err)
	}
	p.forget("a")
	go func() { heard <- p.await(t.Context(), p.now(), "a", runs) }()
	over := errors.New("over")
	p.fail(over)
	if err := <-heard; !errors.Is(err, over) {
		t.Errorf("when nothing more is told: %v", err)
	}
}
