package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/fleet/kube/kubetest"
	"github.com/tare-bench/tare/internal/fleet/pairs"
)

// first runs a preflight, and checks that it makes nothing.
func first(t *testing.T, s *kubetest.Server, r Request) *Preflight {
	t.Helper()
	f, err := CheckFirst(t.Context(), s.Client(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []string{"configmaps", "secrets", "jobs", "pods"} {
		if n := s.Objects(resource); n != 0 {
			t.Errorf("%d %s were made", n, resource)
		}
	}
	return f
}

func request() Request { return Request{Plan: *plan()} }

// has reports whether one of some texts contains another.
func has(all []string, part string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, part) })
}

func TestCheckFirst(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{}, "a", "b", "c", "d", "e", "f", "g")
	put := func(name string, change func(*kube.Node)) {
		n := kubetest.NewNode(name)
		n.Labels[nodeZone], n.Labels[nodeType], n.Labels["disk"] = "z1", "big", "nvme"
		change(n)
		s.Put(n)
	}
	put("a", func(n *kube.Node) {})
	put("b", func(n *kube.Node) { n.Spec.Unschedulable = true })
	put("c", func(n *kube.Node) {
		n.Status.Conditions[0].Status, n.Status.Conditions[0].Message = "Unknown", "Kubelet stopped"
	})
	put("d", func(n *kube.Node) { n.Spec.Taints = []kube.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}} })
	put("e", func(n *kube.Node) { n.Status.Info.Arch = "s390x" })
	put("f", func(n *kube.Node) { n.Status.Allocatable = kube.Resources{"cpu": "4", "memory": "1Mi"} })
	r := request()
	r.Fleet.GroupBy = []string{"arch", "disk"}
	r.Nodes = []string{"a", "b", "c", "d", "e", "f", "g", "zz"}
	f := first(t, s, r)
	want := map[string]string{
		"b": "cordoned", "c": "NotReady: Kubelet stopped", "d": "tainted gpu=yes:NoSchedule: --toleration gpu",
		"e":  "architecture s390x: tare runs on amd64 and arm64",
		"f":  "too little memory: 1 MiB for pods, and 64 MiB are asked for",
		"zz": "the cluster has no such node, or the selector leaves it out",
	}
	got := map[string]string{}
	for _, o := range f.Plan.Fleet.LeftOut {
		got[o.Node] = o.Reason
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("left out:\n%s", diff)
	}
	if n := f.Plan.Fleet.Nodes; len(n) != 2 || n[0].Name != "a" || n[0].Group != "amd64, nvme" || n[0].Zone != "z1" ||
		n[1].Group != "amd64" || n[0].CPUs != 4 || n[0].Memory != 8<<30 {
		t.Errorf("nodes: %+v", n)
	}
	if len(f.Problems) != 0 || f.Ask != "" || f.Plan.Fleet.Cluster == "" || f.Objects != 6 || f.Calls < f.Objects ||
		f.Length < signalTime || f.CPUSeconds <= 0 || f.LogBytes <= 0 {
		t.Errorf("%+v", f)
	}
	r.Pod.Tolerations = []kube.Toleration{{Key: "gpu", Operator: "Exists"}}
	if f := first(t, s, r); len(f.Plan.Fleet.Nodes) != 3 {
		t.Errorf("with a toleration: %d nodes", len(f.Plan.Fleet.Nodes))
	}
}

// A refusal is a cluster in which the fleet cannot run, or not as it is asked for.
type refusal struct {
	name     string
	options  kubetest.Options
	put      kube.Object
	change   func(*Request)
	problem  string
	admitted string
	note     string
}

// nodeWith is a node that lists an image.
func nodeWith(name, image string) *kube.Node {
	n := kubetest.NewNode(name)
	if err := json.Unmarshal(fmt.Appendf(nil, `{"status":{"images":[{"names":[%q]}]}}`, image), n); err != nil {
		panic(err) // it is written above
	}
	return n
}

// nodeOn is a node of an architecture.
func nodeOn(name, arch string) *kube.Node {
	n := kubetest.NewNode(name)
	n.Status.Info.Arch = arch
	return n
}

// A node that lists the image, or as many as nodes list at most, is not said to lack it.
func TestImageIsListed(t *testing.T) {
	for _, images := range [][]string{{"reg/tare@sha256:1"}, slices.Repeat([]string{"another"}, listed)} {
		s := kubetest.Start(t, kubetest.Options{}, "a", "b")
		n := nodeWith("b", images[0])
		n.Status.Images = slices.Repeat(n.Status.Images, len(images))
		s.Put(n)
		if f := first(t, s, request()); has(f.Notes, "do not list") {
			t.Errorf("notes: %q", f.Notes)
		}
	}
}

func refusals(t *testing.T) []refusal {
	quota := func(hard, used kube.Resources) *kube.ResourceQuota {
		q := &kube.ResourceQuota{Meta: kube.Meta{Name: "q", Namespace: "default"}}
		q.Spec.Hard, q.Status.Hard, q.Status.Used = hard, hard, used
		return q
	}
	scoped := func(q *kube.ResourceQuota, scopes ...string) kube.Object {
		q.Spec.Scopes = scopes
		return q
	}
	limits := func(text string) *kube.LimitRange {
		l := &kube.LimitRange{Meta: kube.Meta{Name: "l", Namespace: "default"}}
		if err := json.Unmarshal([]byte(text), &l.Spec); err != nil {
			t.Fatal(err)
		}
		return l
	}
	return []refusal{
		{name: "rights", options: kubetest.Options{Forbid: func(a kube.Access) string {
			if a.Subresource == "log" {
				return "RBAC: no"
			}
			return ""
		}}, problem: "you may not get pods/log in namespace default (RBAC: no): tare fleet rbac"},
		{name: "optional right", options: kubetest.Options{Forbid: func(a kube.Access) string {
			if a.Resource == "resourcequotas" {
				return "RBAC: no"
			}
			return ""
		}}, note: "you may not list resourcequotas"},
		{
			name: "quota of pods", put: quota(kube.Resources{"pods": "10"}, kube.Resources{"pods": "8"}),
			problem: "quota default/q allows 10 pods, of which 8 are used and 2 are left: the fleet needs 3",
		},
		{
			name: "quota of other pods", put: scoped(quota(kube.Resources{"pods": "1"}, nil), "BestEffort"),
		},
		{
			name: "quota of such pods", put: scoped(quota(kube.Resources{"pods": "1"}, nil), "NotTerminating", "NotBestEffort"),
			problem: "quota default/q allows 1 pods, of which 0 are used and 1 are left: the fleet needs 3",
		},
		{
			name: "quota of some pods", put: scoped(quota(kube.Resources{"pods": "1"}, nil), "PriorityClass"),
			note: "quota default/q counts only some pods: it was not looked at",
		},
		{name: "quota of limits", put: quota(kube.Resources{"limits.cpu": "100"}, nil), problem: "unless --cpus is given"},
		{
			name: "quota with cpus", put: quota(kube.Resources{"limits.cpu": "100"}, nil),
			change: func(r *Request) { r.Pod.CPUs = 2 },
		},
		{
			name: "small limit", put: limits(`{"limits":[{"type":"Container","max":{"memory":"1Mi"}}]}`),
			problem: "LimitRange default/l allows at most 1Mi of memory, and a pod asks for 64 MiB: --memory asks for less",
		},
		{
			name: "large limit", put: limits(`{"limits":[{"type":"Pod","min":{"memory":"2Gi","cpu":"500m"}}]}`),
			problem: "LimitRange default/l wants at least 500m of cpu, and a pod asks for 0.1: --cpus asks for more",
		},
		{
			name: "limit of CPUs", put: limits(`{"limits":[{"type":"Container","max":{"cpu":"1"}}]}`),
			change:  func(r *Request) { r.Pod.CPUs = 2 },
			problem: "LimitRange default/l allows at most 1 of cpu, and a pod asks for 2: --cpus asks for less",
		},
		{
			name: "default limit", put: limits(`{"limits":[{"type":"Container","default":{"cpu":"500m"}}]}`),
			admitted: "LimitRange default/l limits its CPUs to 500m",
		},
		{name: "sidecar", options: kubetest.Options{Admit: addSidecar("Pod")}, admitted: `a container "mesh" beside it`},
		{name: "webhook", options: kubetest.Options{Admit: func(kind string, _ map[string]any) error {
			if kind == "Pod" {
				return fmt.Errorf("policy: no images from \x1b[31mreg")
			}
			return nil
		}}, problem: "namespace default refuses a pod of the fleet"},
		{
			name: "namespace", change: func(r *Request) { r.Fleet.Namespaces = []string{"none"} },
			problem: "kubectl create namespace none",
		},
		{
			name: "nobody", change: func(r *Request) { r.Nodes = []string{"zz"} },
			problem: "no node of 3 can be measured; zz: ",
		},
		{
			name: "old", options: kubetest.Options{Minor: 24},
			problem: "the cluster has Kubernetes v1.24.4, and a fleet needs 1.25 or later",
		},
		{
			name: "image to pull", put: nodeWith("b", "registry.example/pause:3"),
			note: "1 of 3 nodes do not list the image reg/tare@sha256:1 yet (such as b), and will pull it",
		},
		{
			name: "two architectures", put: nodeOn("b", "arm64"),
			note: "the nodes are amd64 and arm64: the image must have a program for each",
		},
		{
			name: "image of nobody", put: nodeWith("b", "registry.example/pause:3"),
			change: func(r *Request) { r.Fleet.Image = "localhost/tare:1" }, note: "nobody can pull it: tare fleet image -o FILE",
		},
		{
			name: "hosts' network", change: withHosts, options: kubetest.Options{Admit: func(kind string, o map[string]any) error {
				spec, _ := o["spec"].(map[string]any)
				if kind == "Pod" && spec["hostNetwork"] == true {
					return errors.New(`violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)`)
				}
				return nil
			}}, problem: "kubectl label --overwrite namespace default pod-security.kubernetes.io/enforce=privileged",
		},
		{
			name: "hosts", change: func(r *Request) { r.Fleet.Host = true },
			options: kubetest.Options{Admit: func(kind string, o map[string]any) error {
				spec, _ := o["spec"].(map[string]any)
				if kind == "Pod" && spec["hostPID"] == true {
					return errors.New(`violates PodSecurity "baseline:latest": host namespaces (hostPID=true), privileged`)
				}
				return nil
			}}, problem: "namespace default refuses pods that may do what --host and --network host need",
		},
		{
			name: "quota with the hosts' network", change: withHosts, put: quota(kube.Resources{"pods": "5"}, nil),
			problem: "quota default/q allows 5 pods, of which 0 are used and 5 are left: the fleet needs 6",
		},
		{
			name: "few rounds", change: func(r *Request) { r.Fleet.Rounds = 4 },
			note: "4 rounds cannot name any of 3 nodes: it takes at least 5",
		},
		{
			name: "labels of nobody", change: func(r *Request) { r.Selector = "a" },
			problem: `no node has labels as in --nodes "a"; to choose by name: --nodes 'kubernetes.io/hostname in (a,b)'`,
		},
		{
			name: "groups of nobody", change: func(r *Request) { r.Fleet.GroupBy = []string{"arch", "rack"} },
			note: `no node has the label "rack" of --group-by`,
		},
		{name: "alone", change: func(r *Request) { r.Nodes = []string{"a"} }, problem: "only one node"},
	}
}

func withHosts(r *Request) { r.Fleet.Networks = []string{pairs.Pod, pairs.Host} }

func TestRefusals(t *testing.T) {
	for _, one := range refusals(t) {
		t.Run(one.name, func(t *testing.T) {
			s := kubetest.Start(t, one.options, "a", "b", "c")
			if one.put != nil {
				s.Put(one.put)
			}
			r := request()
			if one.change != nil {
				one.change(&r)
			}
			f := first(t, s, r)
			if one.problem == "" && len(f.Problems) > 0 || !has(append(f.Problems, ""), one.problem) {
				t.Errorf("problems: %q", f.Problems)
			}
			if one.admitted == "" && len(f.Admitted) > 0 || !has(append(f.Admitted, ""), one.admitted) {
				t.Errorf("admitted: %q", f.Admitted)
			}
			if !has(append(f.Notes, ""), one.note) {
				t.Errorf("notes: %q", f.Notes)
			}
		})
	}
}

// TestAsk has more nodes than are measured without a question, in several pages.
func TestAsk(t *testing.T) {
	var names []string
	for i := range 51 {
		names = append(names, fmt.Sprintf("n%03d", i))
	}
	s := kubetest.Start(t, kubetest.Options{}, names...)
	if f := first(t, s, request()); f.Ask != "51 nodes are measured" {
		t.Errorf("%q", f.Ask)
	}
}

// TestSpaces has more nodes than one namespace should hold pods.
func TestSpaces(t *testing.T) {
	if got := spaces("tare", 2500); !slices.Equal(got, []string{"tare"}) {
		t.Errorf("2500: %q", got)
	}
	p := plan()
	p.Fleet.Nodes = make([]fleet.Node, 5001)
	p.Fleet.Namespaces = spaces("tare", 5001)
	if !slices.Equal(p.Fleet.Namespaces, []string{"tare-0", "tare-1", "tare-2"}) ||
		p.spaceOf(2499) != "tare-0" || p.spaceOf(2500) != "tare-1" || p.spaceOf(5000) != "tare-2" {
		t.Errorf("5001: %q, %s, %s", p.Fleet.Namespaces, p.spaceOf(2499), p.spaceOf(2500))
	}
	for i := range p.Fleet.Nodes {
		p.Fleet.Nodes[i] = fleet.Node{
			Name:  fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/256, i%256),
			Group: "amd64, m7i.4xlarge", Zone: "eu-central-1a", InstanceType: "m7i.4xlarge", Arch: "amd64",
			Kernel: "6.12.48+deb13-cloud-amd64", OS: "Debian GNU/Linux 13 (trixie)",
		}
	}
	root, err := p.root("tare-0")
	if err != nil || len(root.Binary[planKey]) > 512<<10 {
		t.Errorf("the plan has %d bytes, %v", len(root.Binary[planKey]), err)
	}
	back, err := readPlan(root)
	if err != nil || len(back.Fleet.Nodes) != 5001 {
		t.Errorf("read back: %v", err)
	}
	s := kubetest.Start(t, kubetest.Options{Forbid: func(a kube.Access) string {
		if a.Namespace == "elsewhere-0" || a.Namespace == "tare" { // as RBAC refuses what there is not, and what is not allowed
			return "no"
		}
		return ""
	}})
	for _, name := range append(p.Fleet.Namespaces, "tare", "elsewhere") {
		s.Put(&kube.Namespace{Meta: kube.Meta{Name: name}})
	}
	s.Put(root)
	all, err := List(t.Context(), s.Client(), "tare")
	if err != nil || len(all) != 1 || len(all[0].Plan.Fleet.Nodes) != 5001 {
		t.Errorf("listed: %d fleets, %v", len(all), err)
	}
	if found, err := Find(t.Context(), s.Client(), "tare", p.Fleet.ID); err != nil || len(found.Fleet.Nodes) != 5001 {
		t.Errorf("found: %v", err)
	}
	if all, err := List(t.Context(), s.Client(), "elsewhere"); err != nil || len(all) != 0 {
		t.Errorf("elsewhere: %d fleets, %v", len(all), err)
	}
	if _, err := Find(t.Context(), s.Client(), "elsewhere", p.Fleet.ID); !errors.Is(err, kube.ErrNotFound) {
		t.Errorf("elsewhere: %v", err)
	}
}

// TestPod checks what a pod of the restricted level needs, and what a measurement does.
func TestPod(t *testing.T) {
	p := plan("a", "b")
	j := p.job(1, 0, pairs.Pod, 2, nil)
	s := j.Spec.Template.Spec
	c := s.Containers[0]
	limits, requests := c.Resources.Limits, c.Resources.Requests
	if _, limited := limits["cpu"]; limited || limits["memory"] != requests["memory"] || limits["memory"] != "67108864" {
		t.Errorf("resources: %+v", c.Resources)
	}
	if *s.MountToken || !*s.Security.NonRoot || s.Security.Seccomp.Type != "RuntimeDefault" || *c.Security.Escalation ||
		!*c.Security.ReadOnlyRoot || !slices.Equal(c.Security.Capabilities.Drop, []string{"ALL"}) ||
		s.HostNetwork || s.RestartPolicy != "Never" || *j.Spec.BackoffLimit != 0 || len(s.Tolerations) != 0 {
		t.Errorf("pod: %+v", s)
	}
	p.Pod.CPUs, p.Pod.Memory = 2, 1<<30
	c = p.job(1, 0, pairs.Pod, 2, nil).Spec.Template.Spec.Containers[0]
	if c.Resources.Limits["cpu"] != "2" || c.Resources.Requests["cpu"] != "2" {
		t.Errorf("with CPUs: %+v", c.Resources)
	}
	// In the hosts' network, that is all that it has more.
	h := p.job(1, 0, pairs.Host, 2, nil).Spec.Template.Spec
	if !h.HostNetwork || !*h.Security.NonRoot || !slices.Equal(h.Containers[0].Security.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("pod in the hosts' network: %+v", h)
	}
	p.Fleet.Host = true
	if own := p.job(1, 0, pairs.Pod, 2, nil).Spec.Template.Spec; !own.HostPID || !own.HostNetwork ||
		!*own.Containers[0].Security.Privileged || *own.Security.User != 0 {
		t.Errorf("pod that measures its host: %+v", own)
	}
	if r := h.Containers[0].Resources; r.Limits["memory"] != "134217728" || r.Limits["cpu"] != "" || r.Requests["cpu"] != "100m" {
		t.Errorf("in the hosts' network: %+v", r)
	}
}

// hostile are names that no API server gives, and a false one could.
var hostile = []string{
	"\x1b[31mred", "../../etc", "a: {b: [c\n---\nkind: Secret", `"'` + "`", "\u202eabc", strings.Repeat("n", 300),
	"yes", "1e3", "",
}

// TestHostileNames writes such names into objects and YAML, and reads them back.
func TestHostileNames(t *testing.T) {
	p := plan(hostile...)
	p.Fleet.Source = "workload: cpu\n---\nkind: \x07\n# tab\t\n"
	text, err := Manifests(p)
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var names, kinds []string
	for {
		var o struct {
			Kind string
			Meta struct {
				Name   string
				Labels map[string]string
				Notes  map[string]string `yaml:"annotations"`
			} `yaml:"metadata"`
			Data map[string]string
		}
		if d.Decode(&o) != nil {
			break
		}
		kinds = append(kinds, o.Kind)
		if o.Kind == "Job" {
			names = append(names, o.Meta.Notes[noteNode])
		}
		if o.Kind == "ConfigMap" && o.Data[fleet.SourceFile] != "" && o.Data[fleet.SourceFile] != p.Fleet.Source {
			t.Errorf("the experiment is %q", o.Data[fleet.SourceFile])
		}
		strange := strings.Trim(o.Meta.Name, "abcdefghijklmnopqrstuvwxyz0123456789-")
		if o.Meta.Labels[kube.LabelRun] != p.Fleet.ID || strange != "" {
			t.Errorf("%s %q: %v", o.Kind, o.Meta.Name, o.Meta.Labels)
		}
	}
	if diff := cmp.Diff(hostile, names); diff != "" {
		t.Errorf("names of nodes in YAML:\n%s", diff)
	}
	if len(kinds) != 3+len(hostile) || !strings.HasPrefix(strings.Join(kinds, " "), "ConfigMap ConfigMap Secret Job") {
		t.Errorf("kinds: %q", kinds)
	}
	root, err := p.root("default")
	if err != nil {
		t.Fatal(err)
	}
	back, err := readPlan(root)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.Fleet.Nodes, back.Fleet.Nodes); diff != "" {
		t.Errorf("the plan that is read back:\n%s", diff)
	}
	for _, id := range []string{"", "-a", "A", "a/b", "a b", strings.Repeat("a", 41), "../x"} {
		p.Fleet.ID = id
		if _, err := Manifests(p); err == nil {
			t.Errorf("the ID %q is taken", id)
		}
	}
}

// TestHostilePlan reads roots that nobody of ours has written.
func TestHostilePlan(t *testing.T) {
	good, err := plan("a", "b").root("default")
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*kube.ConfigMap){
		"empty":     func(m *kube.ConfigMap) { m.Binary = nil },
		"no gzip":   func(m *kube.ConfigMap) { m.Binary[planKey] = []byte("{}") },
		"cut":       func(m *kube.ConfigMap) { m.Binary[planKey] = m.Binary[planKey][:40] },
		"name":      func(m *kube.ConfigMap) { m.Name = "tare-other" },
		"label":     func(m *kube.ConfigMap) { m.Labels = nil },
		"namespace": func(m *kube.ConfigMap) { m.Namespace = "kube-system" },
	} {
		m := *good
		m.Binary = map[string][]byte{planKey: bytes.Clone(good.Binary[planKey])}
		change(&m)
		if _, err := readPlan(&m); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
}

// A fleet that is measured meanwhile is told.
func TestOtherFleet(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{}, "a", "b", "c")
	p := plan("a", "b", "c")
	p.Fleet.Began = time.Now()
	one, err := newSession(s.Client(), p, 1, []int{0, 1, 2}, Hooks{}, quick)
	if err == nil {
		err = one.makeRoots(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	r := request()
	r.Fleet.ID = "20261126-120000-othr"
	f, err := CheckFirst(t.Context(), s.Client(), r)
	if err != nil || !has(f.Notes, "fleet "+p.Fleet.ID+" is being measured in this namespace") {
		t.Errorf("%+v, %v", f, err)
	}
}
