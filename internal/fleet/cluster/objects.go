package cluster

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/fleet/pairs"
)

// Labels of what belongs to a pass, beside kube.LabelRun. Names of nodes can be too long for a label.
const (
	labelPass  = "tare.pass"  // "1" or "2"
	labelIndex = "tare.index" // of the node in the plan
	// labelNetwork is the network that the pod is in: each node has a pod for what is measured on it, in that of pods, and
	// if round trips between hosts are measured, another one for them.
	labelNetwork = "tare.network"
	// noteNode is the annotation with the node's name.
	noteNode = "tare.node"
)

const (
	container = "tare" // the name of the only container
	planKey   = "plan.json.gz"
	drawKey   = "token"  // of an order: Plan.draw
	maxPlan   = 64 << 20 // bytes, unpacked
	perSpace  = 2500     // pods in one namespace: Kubernetes is tested with 3,000
	nobody    = 65532    // the user and group of the pod
	cpuAsked  = "100m"
	// hostMemory is what a pod in the hosts' network has, in bytes: it measures nothing but paths.
	hostMemory = 128 << 20
	keepEnded  = 24 * time.Hour
	grace      = 30 * time.Second // in which the log of a pod that is removed can still be read
)

// The names of a fleet's objects.
func rootName(id string) string            { return "tare-" + id }
func orderName(id string) string           { return rootName(id) + "-order" }
func startName(id string, pass int) string { return fmt.Sprintf("%s-start-%d", rootName(id), pass) }
func jobName(id string, pass, index int, network string) string {
	name := fmt.Sprintf("%s-%d-%d", rootName(id), pass, index)
	if network == pairs.Host {
		return name + "-host"
	}
	return name
}

// maxID leaves room for the longest suffix in a name that is also a label: 63 characters.
const maxID = 40

// validID says whether an ID can be a part of names and a label.
func validID(id string) error {
	const alnum = "abcdefghijklmnopqrstuvwxyz0123456789"
	if id == "" || len(id) > maxID || strings.Trim(id, alnum+"-") != "" || strings.Trim(id, "-") != id {
		return fmt.Errorf("fleet %.80q: an ID has 1 to %d of a-z, 0-9 and '-', and '-' is not at its ends", id, maxID)
	}
	return nil
}

// podsOf are the networks in which each node has a pod in a pass; the first is that of the pod that measures the node.
func (p *Plan) podsOf(pass int) []string {
	if pass == 1 && slices.Contains(p.Fleet.Networks, pairs.Host) {
		return []string{pairs.Pod, pairs.Host}
	}
	return []string{pairs.Pod}
}

// pods is how many there are in the first pass, which has the most.
func (p *Plan) pods() int { return len(p.Fleet.Nodes) * len(p.podsOf(1)) }

// nodesPerSpace is how many nodes have their pods in one namespace.
func (p *Plan) nodesPerSpace() int { return perSpace / len(p.podsOf(1)) }

// spaceOf is the namespace of a node.
func (p *Plan) spaceOf(index int) string {
	return p.Fleet.Namespaces[min(index/p.nodesPerSpace(), len(p.Fleet.Namespaces)-1)]
}

// spaces are the namespaces of a fleet with that many pods.
func spaces(base string, pods int) []string {
	if pods <= perSpace {
		return []string{base}
	}
	var all []string
	for i := range (pods + perSpace - 1) / perSpace {
		all = append(all, fmt.Sprintf("%s-%d", base, i))
	}
	return all
}

func (p *Plan) meta(name, namespace string) kube.Meta {
	return kube.Meta{Name: name, Namespace: namespace, Labels: map[string]string{kube.LabelRun: p.Fleet.ID}}
}

// root is the ConfigMap that owns the rest of its namespace; that of the first namespace has the plan.
func (p *Plan) root(namespace string) (*kube.ConfigMap, error) {
	m := &kube.ConfigMap{Meta: p.meta(rootName(p.Fleet.ID), namespace)}
	m.Data = map[string]string{
		"about": "Everything of this run of tare belongs to this object, and goes with it: " +
			"tare fleet clean " + p.Fleet.ID,
	}
	if namespace != p.Fleet.Namespaces[0] {
		return m, nil
	}
	kept := *p
	f := &kept.Fleet // what is known from elsewhere is not in it
	f.Outcomes, f.Starts, f.Ahead, f.Trips = nil, nil, nil, nil
	text, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("the plan of fleet %s: %w", p.Fleet.ID, err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err = z.Write(text); err == nil {
		err = z.Close()
	}
	m.Binary = map[string][]byte{planKey: b.Bytes()}
	return m, err
}

// readPlan is the plan in a root ConfigMap. It is as foreign as any text that comes from a cluster.
func readPlan(m *kube.ConfigMap) (*Plan, error) {
	fail := func(err error) (*Plan, error) {
		return nil, fmt.Errorf("the plan in ConfigMap %s/%s cannot be read: %w", m.Namespace, m.Name, err)
	}
	z, err := gzip.NewReader(bytes.NewReader(m.Binary[planKey]))
	if err != nil {
		return fail(err)
	}
	text, err := io.ReadAll(io.LimitReader(z, maxPlan))
	if err != nil {
		return fail(err)
	}
	var p Plan
	if err := json.Unmarshal(text, &p); err != nil {
		return fail(err)
	}
	f := &p.Fleet
	want := len(spaces("", p.pods()))
	switch {
	case f.Format != fleet.Format:
		return fail(fmt.Errorf("it has format %d, and this tare reads %d: use the tare that began it",
			f.Format, fleet.Format))
	case validID(f.ID) != nil || m.Name != rootName(f.ID) || m.Labels[kube.LabelRun] != f.ID:
		return fail(fmt.Errorf("it is that of fleet %.80q", f.ID))
	case len(f.Namespaces) != want || f.Namespaces[0] != m.Namespace || len(f.Nodes) == 0 || f.Rounds < 1 || f.RoundOf(2) <= 0:
		return fail(fmt.Errorf("its namespaces, nodes or rounds make no sense"))
	}
	return &p, nil
}

// order is the ConfigMap that all pods read when they begin.
func (p *Plan) order(namespace string, owners []kube.Owner) (*kube.ConfigMap, error) {
	f := p.Fleet
	text, err := json.Marshal(fleet.Order{
		Fleet: f.ID, Tool: f.Tool, Seed: f.Seed, Rounds: f.Rounds, Confirm: f.Confirm, Round: f.Round,
		Wait: p.deadline(1, p.pods()), Networks: f.Networks, PerRound: pairs.PerRound(len(f.Nodes), f.Rounds),
		Throughput: f.Throughput, Host: f.Host,
	})
	m := &kube.ConfigMap{Meta: p.meta(orderName(f.ID), namespace)}
	m.Owners = owners
	m.Data = map[string]string{fleet.OrderFile: string(text), fleet.SourceFile: f.Source}
	if p.draw != "" {
		m.Data[drawKey] = p.draw
	}
	return m, err
}

// token is the Secret with which the pods of a fleet know each other.
func (p *Plan) token(namespace, text string, owners []kube.Owner) *kube.Secret {
	s := &kube.Secret{Meta: p.meta(p.tokenName(), namespace)}
	s.Owners = owners
	s.Data = map[string][]byte{path.Base(fleet.TokenFile): []byte(text)}
	return s
}

// tokenName is what the Secrets are called that the pods are given.
func (p *Plan) tokenName() string {
	if p.draw == "" {
		return rootName(p.Fleet.ID) + "-token"
	}
	return rootName(p.Fleet.ID) + "-token-" + p.draw
}

// randomText is a text that nobody can guess, of n bytes in hexadecimal.
func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}

// start is the ConfigMap that pods wait for.
func (p *Plan) start(namespace string, s fleet.Start, owners []kube.Owner) (*kube.ConfigMap, error) {
	m := &kube.ConfigMap{Meta: p.meta(startName(p.Fleet.ID, s.Pass), namespace)}
	m.Labels[labelPass] = strconv.Itoa(s.Pass)
	m.Owners = owners
	text, err := json.Marshal(s)
	m.Data = map[string]string{fleet.StartFile: string(text)}
	return m, err
}

// job is the Job of one node in one pass and network. jobs is how many the pass has.
func (p *Plan) job(pass, index int, network string, jobs int, owners []kube.Owner) *kube.Job {
	node := p.Fleet.Nodes[index].Name
	labels := maps.Clone(p.Pod.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[kube.LabelRun] = p.Fleet.ID
	labels[labelPass] = strconv.Itoa(pass)
	labels[labelIndex] = strconv.Itoa(index)
	labels[labelNetwork] = network
	notes := map[string]string{noteNode: node}
	j := &kube.Job{Meta: kube.Meta{
		Name: jobName(p.Fleet.ID, pass, index, network), Namespace: p.spaceOf(index), Labels: labels,
		Annotations: notes, Owners: owners,
	}}
	j.Spec = kube.JobSpec{
		Parallelism: new(int32(1)), Completions: new(int32(1)), BackoffLimit: new(int32(0)),
		Deadline: new(int64(p.deadline(pass, jobs) / time.Second)), TTL: new(int32(keepEnded / time.Second)),
		Failures: &kube.PodFailurePolicy{Rules: []kube.PodFailureRule{disrupted()}},
	}
	j.Spec.Template.Labels = labels
	j.Spec.Template.Annotations = map[string]string{
		noteNode: node, "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
	}
	j.Spec.Template.Spec = p.pod(node, pass, network)
	return j
}

// disrupted is the rule that a pod which is drained or preempted is not made again: it would begin in the middle, on a
// node that is to be empty.
func disrupted() kube.PodFailureRule {
	r := kube.PodFailureRule{Action: "FailJob"}
	r.Conditions = slices.Grow(r.Conditions, 1)[:1]
	r.Conditions[0].Type, r.Conditions[0].Status = disruption, "True"
	return r
}

// disruption is the condition of a pod that the cluster ends before its time.
const disruption = "DisruptionTarget"

// rounds of a pass.
func (p *Plan) rounds(pass int) int {
	if pass == 2 {
		return p.Fleet.Confirm
	}
	return p.Fleet.Rounds
}

// deadline is when a Job, of so many in a pass, is stopped if its pod does not end by itself.
func (p *Plan) deadline(pass, jobs int) time.Duration {
	return rampLimit(jobs) + signalTime + time.Duration(p.rounds(pass)+2)*p.Fleet.RoundOf(pass) + 10*time.Minute
}

// memoryOf and cpusOf are what the pod of a network is given: see Pod.
func (p *Plan) memoryOf(network string) int64 {
	if network == pairs.Host {
		return min(hostMemory, p.Pod.Memory)
	}
	return p.Pod.Memory
}

func (p *Plan) cpusOf(network string) int {
	if network == pairs.Host {
		return 0
	}
	return p.Pod.CPUs
}

// pod is what runs on a node in a network.
func (p *Plan) pod(node string, pass int, network string) kube.PodSpec {
	memory := strconv.FormatInt(p.memoryOf(network), 10)
	res := kube.Requirements{
		Requests: kube.Resources{"cpu": cpuAsked, "memory": kube.Quantity(memory)},
		Limits:   kube.Resources{"memory": kube.Quantity(memory)},
	}
	if n := p.cpusOf(network); n > 0 {
		res.Requests["cpu"], res.Limits["cpu"] = kube.Quantity(strconv.Itoa(n)), kube.Quantity(strconv.Itoa(n))
	}
	c := kube.Container{
		Name: container, Image: p.Fleet.Image, Args: p.Pod.Args, Resources: res,
		Env: []kube.EnvVar{
			kube.EnvField(fleet.EnvNode, "spec.nodeName"), kube.EnvField(fleet.EnvAddress, "status.podIP"),
			{Name: fleet.EnvPass, Value: strconv.Itoa(pass)},
			{Name: fleet.EnvNetwork, Value: network},
			{Name: "TMPDIR", Value: fleet.DataDir},
			{Name: "HOME", Value: fleet.DataDir},
		},
		Mounts: []kube.Mount{
			{Name: "order", Path: fleet.OrderDir, ReadOnly: true},
			{Name: "start", Path: fleet.StartDir, ReadOnly: true},
			{Name: "token", Path: path.Dir(fleet.TokenFile), ReadOnly: true},
			{Name: "data", Path: fleet.DataDir},
		},
		TerminationMessage: fleet.DigestFile, TerminationPolicy: "File",
		Security: &kube.Security{
			Escalation: new(false), ReadOnlyRoot: new(true), NonRoot: new(true),
			Capabilities: &kube.Capabilities{Drop: []string{"ALL"}}, Seccomp: &kube.Seccomp{Type: "RuntimeDefault"},
		},
	}
	id := p.Fleet.ID
	s := kube.PodSpec{
		Affinity: kube.OnNode(node), Tolerations: p.Pod.Tolerations, PriorityClass: p.Pod.Priority, RestartPolicy: "Never",
		MountToken: new(false), ServiceLinks: new(false), Grace: new(int64(grace / time.Second)),
		HostNetwork: network == pairs.Host,
		Security: &kube.PodSecurity{
			NonRoot: new(true), User: new(int64(nobody)), Group: new(int64(nobody)), FSGroup: new(int64(nobody)),
			Seccomp: &kube.Seccomp{Type: "RuntimeDefault"},
		},
		Volumes: []kube.Volume{
			{Name: "order", ConfigMap: &kube.ConfigMapVolume{Name: orderName(id)}},
			{Name: "start", ConfigMap: &kube.ConfigMapVolume{Name: startName(id, pass), Optional: new(true)}},
			{Name: "token", Secret: &kube.SecretVolume{Name: p.tokenName(), Mode: new(int32(0o440))}},
			{Name: "data", Empty: &kube.EmptyDir{Limit: strconv.FormatInt(p.Pod.Disk, 10)}},
		},
	}
	if p.Fleet.Host { // it leaves all that is its own: see package kernel/hostns
		s.HostPID, s.HostNetwork, s.Security = true, true, &kube.PodSecurity{User: new(int64(0))}
		c.Security = &kube.Security{Privileged: new(true)}
	}
	for _, name := range p.Pod.PullSecrets {
		s.PullSecrets = append(s.PullSecrets, kube.LocalReference{Name: name})
	}
	s.Containers = []kube.Container{c}
	return s
}
