package kubetest

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/fleet/kube"
)

// An Ending is how a container ends. The zero value is that all went well.
type Ending struct {
	Code    int
	Reason  string // "" = Completed, or Error if the code is not 0
	Message string // its termination message
}

// A Process is the container of a pod, which a test's function plays.
type Process struct {
	Pod  kube.Pod // as it was made
	Node string

	s      *Server
	key    string
	ctx    context.Context
	cancel context.CancelFunc
	ended  bool
	lines  []string // of the log, with their ends
}

// Context ends when the pod is told to end.
func (p *Process) Context() context.Context { return p.ctx }

// Now is the time by the node's clock: see Options.Ahead.
func (p *Process) Now() time.Time { return time.Now().UTC().Add(p.s.ahead(p.Node)) }

// Env is a variable of the container's environment, fields of the pod included.
func (p *Process) Env(name string) string {
	for _, e := range p.Pod.Spec.Containers[0].Env {
		if e.Name != name {
			continue
		}
		if e.From == nil || e.From.Field == nil {
			return e.Value
		}
		switch e.From.Field.Path {
		case "spec.nodeName":
			return p.Node
		case "metadata.name":
			return p.Pod.Name
		case "status.podIP":
			return p.IP()
		}
	}
	return ""
}

// IP is the pod's address, on which a process of this machine can listen. It is made of the pod's version, which no
// other pod has.
func (p *Process) IP() string {
	n, _ := strconv.Atoi(p.Pod.ResourceVersion)
	return fmt.Sprintf("127.201.%d.%d", n>>8&255, n&255)
}

// File reads a file of a ConfigMap or Secret that is mounted, as it is now.
func (p *Process) File(name string) ([]byte, bool) {
	for _, m := range p.Pod.Spec.Containers[0].Mounts {
		if path.Dir(name) != path.Clean(m.Path) {
			continue
		}
		for _, v := range p.Pod.Spec.Volumes {
			switch {
			case v.Name != m.Name:
			case v.ConfigMap != nil:
				return p.s.data("configmaps", p.Pod.Namespace+"/"+v.ConfigMap.Name, path.Base(name))
			case v.Secret != nil:
				return p.s.data("secrets", p.Pod.Namespace+"/"+v.Secret.Name, path.Base(name))
			}
		}
	}
	return nil, false
}

func (s *Server) data(resource, key, name string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[resource][key]
	all, _ := o["data"].(map[string]any)
	text, ok := all[name].(string)
	if !ok || resource == "configmaps" {
		return []byte(text), ok
	}
	secret, err := base64.StdEncoding.DecodeString(text)
	return secret, err == nil
}

// Write adds to the log.
func (p *Process) Write(text []byte) (int, error) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	for l := range bytes.Lines(text) {
		p.lines = append(p.lines, string(l))
	}
	return len(text), nil
}

// Running says that the container has begun.
func (p *Process) Running() {
	p.status(func(status *kube.PodStatus) {
		status.Phase, status.IP = "Running", p.IP()
		status.Containers[0].State = kube.ContainerState{Running: &kube.Running{Started: p.Now().Truncate(time.Second)}}
	})
}

// Waiting says that the container cannot begin, such as for ImagePullBackOff.
func (p *Process) Waiting(reason, message string) {
	p.status(func(status *kube.PodStatus) {
		status.Containers[0].State = kube.ContainerState{Waiting: &kube.Waiting{Reason: reason, Message: message}}
	})
}

// ahead is how far the clock of a node is ahead.
func (s *Server) ahead(node string) time.Duration {
	if s.options.Ahead == nil {
		return 0
	}
	return s.options.Ahead(node)
}

func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// status changes what is said of the pod, if it is still there.
func (p *Process) status(change func(*kube.PodStatus)) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.changeStatus(change)
}

func (p *Process) changeStatus(change func(*kube.PodStatus)) {
	o := p.s.objects["pods"][p.key]
	if o == nil {
		return
	}
	var pod kube.Pod
	o.decode(&pod)
	change(&pod.Status)
	p.s.store(encode(&pod))
}

// begin does what the controller of Jobs does. The lock is held.
func (s *Server) begin(o object) {
	var job kube.Job
	o.decode(&job)
	pod := kube.Pod{Meta: job.Spec.Template.Meta, Spec: job.Spec.Template.Spec}
	pod.Name, pod.Namespace = fmt.Sprintf("%s-%05d", job.Name, s.version), job.Namespace
	owner := kube.OwnerOf(&job)
	owner.Controller = true
	pod.Owners = []kube.Owner{owner}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels["batch.kubernetes.io/job-name"] = job.Name
	if why := s.overQuota(job.Namespace); why != "" {
		s.event(&job, "FailedCreate", why)
		return
	}
	s.place(encode(&pod))
}

// place does with a pod without gates what the scheduler and the kubelet do. The lock is held.
func (s *Server) place(o object) {
	var pod kube.Pod
	o.decode(&pod)
	node, why := s.schedule(pod.Spec)
	pod.Status.Phase = "Pending"
	if why != "" {
		pod.Status.Conditions = []kube.Condition{{
			Type: "PodScheduled", Status: "False", Reason: "Unschedulable", Message: why,
		}}
		s.store(encode(&pod))
		return
	}
	pod.Spec.Node = node
	pod.Status.Conditions = []kube.Condition{{Type: "PodScheduled", Status: "True", Since: now()}}
	pod.Status.Started = now().Add(s.ahead(node)).Truncate(time.Second)
	c := pod.Spec.Containers[0]
	pod.Status.Containers = []kube.ContainerStatus{{
		Name: c.Name, ID: "containerd://" + pod.Name, Image: c.Image, ImageID: "sha256:" + strings.Repeat("a", 64),
		State: kube.ContainerState{Waiting: &kube.Waiting{Reason: "ContainerCreating"}},
	}}
	made := encode(&pod)
	s.store(made)
	made.decode(&pod)
	p := &Process{Pod: pod, Node: node, s: s, key: made.key()}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	s.processes[p.key] = p
	s.count(p, func(status *kube.JobStatus) { status.Active, status.Started = 1, now() })
	s.playing.Go(p.play)
}

// overQuota says why there can be no more pods.
func (s *Server) overQuota(namespace string) string {
	if len(s.objects["resourcequotas"]) == 0 {
		return ""
	}
	pods := 0
	for _, p := range s.objects["pods"] {
		if p.text("metadata", "namespace") == namespace {
			pods++
		}
	}
	for _, o := range s.objects["resourcequotas"] {
		var q kube.ResourceQuota
		o.decode(&q)
		if most, ok := q.Spec.Hard["pods"].Value(); ok && q.Namespace == namespace && float64(pods) >= most {
			return fmt.Sprintf("exceeded quota: %s, requested: pods=1, used: pods=%d, limited: pods=%g", q.Name, pods, most)
		}
	}
	return ""
}

func (s *Server) event(job *kube.Job, reason, message string) {
	e := &kube.Event{Type: "Warning", Reason: reason, Message: message, Count: 1, Last: now()}
	e.Name, e.Namespace = fmt.Sprintf("%s.%d", job.Name, s.version), job.Namespace
	e.Involved.Kind, e.Involved.Name, e.Involved.UID = "Job", job.Name, job.UID
	s.store(encode(e))
}

// schedule says which node a pod is on, or why it is on none.
func (s *Server) schedule(spec kube.PodSpec) (node, why string) {
	if spec.Affinity == nil || spec.Affinity.Node == nil || spec.Affinity.Node.Required == nil {
		for key := range s.objects["nodes"] {
			return strings.TrimPrefix(key, "/"), ""
		}
		return "", "no nodes available to schedule pods"
	}
	name := spec.Affinity.Node.Required.Terms[0].Fields[0].Values[0]
	o := s.objects["nodes"]["/"+name]
	if o == nil {
		return "", "0 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
	}
	var n kube.Node
	o.decode(&n)
	if n.Spec.Unschedulable {
		return "", "0 nodes are available: 1 node(s) were unschedulable."
	}
	for _, taint := range n.Spec.Taints {
		if taint.Effect != "PreferNoSchedule" && !tolerates(spec.Tolerations, taint) {
			return "", fmt.Sprintf("0 nodes are available: 1 node(s) had untolerated taint {%s: %s}.", taint.Key, taint.Value)
		}
	}
	return name, ""
}

func tolerates(all []kube.Toleration, taint kube.Taint) bool {
	for _, t := range all {
		key := t.Key == taint.Key || t.Key == "" && t.Operator == "Exists"
		value := t.Operator == "Exists" || t.Value == taint.Value
		if key && value && (t.Effect == "" || t.Effect == taint.Effect) {
			return true
		}
	}
	return false
}

// play runs the container from beginning to end.
func (p *Process) play() {
	var end Ending
	if p.s.options.Run != nil {
		end = p.s.options.Run(p)
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.finish(end)
}

// finish says how the container ended. The lock is held.
func (p *Process) finish(end Ending) {
	if p.ended {
		return
	}
	p.ended = true
	p.cancel()
	phase, reason := "Succeeded", "Completed"
	if end.Code != 0 {
		phase, reason = "Failed", "Error"
	}
	if end.Reason != "" {
		reason = end.Reason
	}
	p.changeStatus(func(status *kube.PodStatus) {
		status.Phase = phase
		status.Containers[0].State = kube.ContainerState{Terminated: &kube.Terminated{
			ExitCode: end.Code, Reason: reason, Message: end.Message, Finished: p.Now().Truncate(time.Second),
		}}
	})
	p.s.count(p, func(status *kube.JobStatus) {
		status.Active = 0
		if end.Code == 0 {
			status.Succeeded, status.Completed = 1, now()
			status.Conditions = []kube.Condition{{Type: "Complete", Status: "True"}}
			return
		}
		status.Failed = 1
		status.Conditions = []kube.Condition{{Type: "Failed", Status: "True", Reason: "BackoffLimitExceeded"}}
	})
	if o := p.s.objects["pods"][p.key]; o != nil && o.text("metadata", "deletionTimestamp") != "" {
		p.s.end("pods", o)
	}
}

// count changes what is said of the Job of a pod. The lock is held.
func (s *Server) count(p *Process, change func(*kube.JobStatus)) {
	o := s.objects["jobs"][p.Pod.Namespace+"/"+p.Pod.Labels["batch.kubernetes.io/job-name"]]
	if o == nil {
		return
	}
	var job kube.Job
	o.decode(&job)
	change(&job.Status)
	s.store(encode(&job))
}

// terminate tells a process to end, and ends it after the time of grace. The lock is held.
func (s *Server) terminate(p *Process) {
	o := s.objects["pods"][p.key]
	if o == nil || o.text("metadata", "deletionTimestamp") != "" {
		return
	}
	o.child("metadata")["deletionTimestamp"] = now().Format(time.RFC3339)
	s.store(o)
	p.cancel()
	time.AfterFunc(s.options.Grace, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.finish(Ending{Code: 137})
	})
}

// Evict ends the pods of a node, as a drain does.
func (s *Server) Evict(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		if p.Node != node || p.ended {
			continue
		}
		p.changeStatus(func(status *kube.PodStatus) {
			status.Conditions = append(status.Conditions, kube.Condition{
				Type: "DisruptionTarget", Status: "True", Reason: "EvictionByEvictionAPI",
				Message: "Eviction API: evicting",
			})
		})
		s.terminate(p)
	}
}

// SetLog replaces the log of the pods of a node, as its rotation does.
func (s *Server) SetLog(node, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		if p.Node == node {
			p.lines = []string{text}
		}
	}
}

// log answers with the log of a pod.
func (s *Server) log(w http.ResponseWriter, r *http.Request, t target) {
	limit, err := strconv.Atoi(r.URL.Query().Get("limitBytes"))
	s.mu.Lock()
	p := s.processes[t.namespace+"/"+t.name]
	var text strings.Builder
	if p != nil {
		for _, l := range p.lines {
			text.WriteString(l)
		}
	}
	s.mu.Unlock()
	if p == nil {
		answer(w, notFound("pods", t.name))
		return
	}
	all := text.String()
	if err == nil && len(all) > limit {
		all = all[:limit]
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write([]byte(all)) // the client may have gone
}
