package kubetest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/fleet/kube"
)

// An object is one as JSON has it.
type object map[string]any

func (o object) child(name string) object {
	switch c := o[name].(type) {
	case map[string]any:
		return c
	case object:
		return c
	}
	c := object{}
	o[name] = map[string]any(c)
	return c
}

func (o object) text(path ...string) string {
	for _, p := range path[:len(path)-1] {
		next, ok := o[p].(map[string]any)
		if !ok {
			return ""
		}
		o = next
	}
	text, _ := o[path[len(path)-1]].(string)
	return text
}

func (o object) key() string {
	return o.text("metadata", "namespace") + "/" + o.text("metadata", "name")
}

// decode and encode make one of package kube of it, and the other way round.
func (o object) decode(into any) {
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		panic(fmt.Sprintf("kubetest: %v", err))
	}
}

func encode(o kube.Object) object {
	text, err := kube.EncodeJSON(o)
	var all object
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		panic(fmt.Sprintf("kubetest: %v", err))
	}
	return all
}

func (o object) copy() object {
	var c object
	o.decode(&c)
	return c
}

// resources are where objects of a kind are.
var resources = map[string]string{
	"Node": "nodes", "Namespace": "namespaces", "Pod": "pods", "Job": "jobs", "ConfigMap": "configmaps",
	"Secret": "secrets", "ResourceQuota": "resourcequotas", "LimitRange": "limitranges", "Event": "events",
}

// A change is one that watches hear of.
type change struct {
	version  int
	kind     string // ADDED, MODIFIED or DELETED
	resource string
	object   json.RawMessage // all of it: thousands of them take less memory than as maps
	head     object          // its metadata alone
}

// Put makes an object, or replaces it, whatever clients may do. Without a namespace it is in "default".
func (s *Server) Put(o kube.Object) {
	s.t.Helper()
	all := encode(o)
	if resources[all.text("kind")] == "pods" || resources[all.text("kind")] == "jobs" {
		s.t.Fatal("kubetest: pods and Jobs are made by clients")
	}
	if kind := all.text("kind"); kind != "Node" && kind != "Namespace" && all.text("metadata", "namespace") == "" {
		all.child("metadata")["namespace"] = "default"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(all)
}

// Objects counts the objects of a resource, such as "pods", in all namespaces.
func (s *Server) Objects(resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects[resource])
}

// store keeps an object as its newest version. The lock is held.
func (s *Server) store(o object) {
	resource := resources[o.text("kind")]
	m := o.child("metadata")
	if s.objects[resource] == nil {
		s.objects[resource] = map[string]object{}
	}
	what := "MODIFIED"
	if s.objects[resource][o.key()] == nil {
		what = "ADDED"
	}
	s.version++
	if what == "ADDED" {
		for _, owner := range ownersOf(o) {
			s.owned[owner] = append(s.owned[owner], place{resource, o.key()})
		}
	}
	if o.text("metadata", "uid") == "" {
		m["uid"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", s.version)
	}
	if o.text("metadata", "creationTimestamp") == "" {
		m["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	}
	m["resourceVersion"] = strconv.Itoa(s.version)
	s.objects[resource][o.key()] = o
	s.tell(what, resource, o)
}

// remove takes an object away, and what it owns. The lock is held.
func (s *Server) remove(resource string, o object) {
	delete(s.objects[resource], o.key())
	s.version++
	o.child("metadata")["resourceVersion"] = strconv.Itoa(s.version)
	s.tell("DELETED", resource, o)
	uid := o.text("metadata", "uid")
	for _, at := range s.owned[uid] {
		if other := s.objects[at.resource][at.key]; other != nil && slices.Contains(ownersOf(other), uid) {
			s.end(at.resource, other)
		}
	}
	delete(s.owned, uid)
}

// A place is where an object is.
type place struct{ resource, key string }

// end removes an object, a pod only once its process has ended. The lock is held.
func (s *Server) end(resource string, o object) {
	if p := s.processes[o.key()]; resource == "pods" && p != nil && !p.ended {
		s.terminate(p)
		return
	}
	s.remove(resource, o)
	if resource == "pods" {
		delete(s.processes, o.key())
	}
}

// ownersOf are the UIDs of the owners of an object.
func ownersOf(o object) (uids []string) {
	m, _ := o["metadata"].(map[string]any)
	all, _ := m["ownerReferences"].([]any)
	for _, owner := range all {
		if owner, ok := owner.(map[string]any); ok {
			uids = append(uids, object(owner).text("uid"))
		}
	}
	return uids
}

func (s *Server) tell(kind, resource string, o object) {
	text, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("kubetest: %v", err))
	}
	head := object{"metadata": map[string]any(o.child("metadata"))}.copy()
	s.history = append(s.history, change{s.version, kind, resource, text, head})
	s.wake()
}

// wake lets watches look again. The lock is held.
func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// A target is what a request is about.
type target struct{ group, namespace, resource, name, subresource string }

func parseTarget(r *http.Request) (target, error) {
	var t target
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api" && parts[1] == "v1":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis" && parts[1] == "batch" && parts[2] == "v1":
		t.group, parts = parts[1], parts[3:]
	default:
		return t, notFound("path", r.URL.Path)
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		t.namespace, parts = parts[1], parts[2:]
	}
	for i, to := range []*string{&t.resource, &t.name, &t.subresource} {
		if i < len(parts) {
			*to = parts[i]
		}
	}
	known := slices.Contains(slices.Collect(maps.Values(resources)), t.resource)
	if !known || (t.resource == "jobs") != (t.group == "batch") {
		return t, notFound("resource", t.resource)
	}
	return t, nil
}

func notFound(what, name string) *refusal {
	return &refusal{http.StatusNotFound, "NotFound", fmt.Sprintf("%s %q not found", what, name)}
}

func (t target) access(r *http.Request) kube.Access {
	verb := map[string]string{"GET": "get", "POST": "create", "PATCH": "patch", "DELETE": "delete"}[r.Method]
	if verb == "get" && t.name == "" {
		verb = "list"
		if r.URL.Query().Get("watch") == "true" {
			verb = "watch"
		}
	}
	return kube.Access{
		Verb: verb, Group: t.group, Resource: t.resource, Subresource: t.subresource, Namespace: t.namespace,
	}
}

// change does what is asked, and returns the answer: an object or a refusal.
func (s *Server) change(r *http.Request, t target) any {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return bad(err)
	}
	var body object
	if len(text) > 0 {
		if err := json.Unmarshal(text, &body); err != nil {
			return bad(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodPost {
		return s.create(body, t, r.URL.Query().Get("dryRun") == "All")
	}
	old := s.objects[t.resource][t.namespace+"/"+t.name]
	if old == nil {
		return notFound(t.resource, t.name)
	}
	switch r.Method {
	case http.MethodGet:
		return old.copy()
	case http.MethodPatch:
		return s.ungate(old, body)
	case http.MethodDelete:
		if uid := body.text("preconditions", "uid"); uid != "" && uid != old.text("metadata", "uid") {
			return &refusal{http.StatusConflict, "Conflict", "the UID in the precondition does not match"}
		}
		s.end(t.resource, old)
		return object{"kind": "Status", "status": "Success"}
	}
	return &refusal{http.StatusMethodNotAllowed, "MethodNotAllowed", "the server does not allow this method"}
}

func (s *Server) create(o object, t target, dry bool) any {
	if resources[o.text("kind")] != t.resource {
		return bad(fmt.Errorf("the object is a %q", o.text("kind")))
	}
	m := o.child("metadata")
	if t.namespace != "" {
		if s.objects["namespaces"]["/"+t.namespace] == nil {
			return notFound("namespaces", t.namespace)
		}
		m["namespace"] = t.namespace
	}
	if s.objects[t.resource][o.key()] != nil {
		why := fmt.Sprintf("%s %q already exists", t.resource, o.text("metadata", "name"))
		return &refusal{http.StatusConflict, "AlreadyExists", why}
	}
	if t.resource == "jobs" {
		setDefaults(o)
	}
	if s.options.Admit != nil {
		if err := s.options.Admit(o.text("kind"), o); err != nil {
			return &refusal{http.StatusForbidden, "Forbidden", err.Error()}
		}
	}
	if dry {
		m["uid"], m["creationTimestamp"] = "00000000-0000-4000-8000-dddddddddddd", now().Format(time.RFC3339)
		return o
	}
	s.store(o)
	switch {
	case t.resource == "jobs":
		s.begin(o)
	case t.resource == "pods" && len(gatesOf(o)) == 0:
		s.place(o)
	}
	return o.copy()
}

// gatesOf are the scheduling gates of a pod, or those that a patch speaks of.
func gatesOf(o object) []any {
	spec, _ := o["spec"].(map[string]any)
	gates, _ := spec["schedulingGates"].([]any)
	return gates
}

// ungate removes the gates of a pod that a strategic patch removes: the only patch that this server knows.
func (s *Server) ungate(pod, patch object) any {
	gates := gatesOf(pod)
	if len(gates) == 0 {
		return pod.copy() // it runs
	}
	for _, p := range gatesOf(patch) {
		p, _ := p.(map[string]any)
		if p["$patch"] != "delete" {
			return bad(fmt.Errorf("the patch %v", patch))
		}
		gates = slices.DeleteFunc(gates, func(g any) bool { return object(g.(map[string]any)).text("name") == p["name"] })
	}
	pod = pod.copy()
	pod.child("spec")["schedulingGates"] = gates
	s.store(pod)
	if len(gates) == 0 {
		s.place(pod)
	}
	return s.objects["pods"][pod.key()].copy()
}

// setDefaults adds to a Job what the server adds.
func setDefaults(o object) {
	set := func(o object, name string, value any) {
		if o[name] == nil {
			o[name] = value
		}
	}
	spec := o.child("spec")
	set(spec, "completions", 1)
	set(spec, "parallelism", 1)
	set(spec, "backoffLimit", 6)
	pod := spec.child("template").child("spec")
	set(pod, "dnsPolicy", "ClusterFirst")
	set(pod, "terminationGracePeriodSeconds", 30)
	containers, _ := pod["containers"].([]any)
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok {
			set(c, "terminationMessagePath", "/dev/termination-log")
			set(c, "terminationMessagePolicy", "File")
			set(c, "imagePullPolicy", "IfNotPresent")
		}
	}
}

// list answers with a page.
func (s *Server) list(r *http.Request, t target) any {
	q := r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	version, after := s.version, ""
	if c := q.Get("continue"); c != "" {
		if _, err := fmt.Sscanf(c, "%d:%s", &version, &after); err != nil {
			return bad(err)
		}
		if version < s.forgotten {
			return &refusal{http.StatusGone, "Expired", "The provided continue parameter is too old"}
		}
	}
	limit, _ := strconv.Atoi(q.Get("limit"))
	items, meta := []any{}, object{"resourceVersion": strconv.Itoa(version)}
	for _, key := range slices.Sorted(maps.Keys(s.objects[t.resource])) {
		o := s.objects[t.resource][key]
		if key <= after || !t.has(o, q.Get("labelSelector"), q.Get("fieldSelector")) {
			continue
		}
		if limit > 0 && len(items) == limit {
			meta["continue"] = fmt.Sprintf("%d:%s", version, after)
			break
		}
		items, after = append(items, o), key
	}
	return object{"kind": "List", "metadata": meta, "items": items}.copy()
}

// has reports whether a list or watch of the target tells of an object.
func (t target) has(o object, labels, fields string) bool {
	if t.namespace != "" && o.text("metadata", "namespace") != t.namespace {
		return false
	}
	if t.name != "" && o.text("metadata", "name") != t.name {
		return false
	}
	return fits(labels, func(key string) (string, bool) {
		m, _ := o["metadata"].(map[string]any)
		all, _ := m["labels"].(map[string]any)
		value, ok := all[key].(string)
		return value, ok
	}) && fits(fields, func(path string) (string, bool) { return o.text(strings.Split(path, ".")...), true })
}

// fits reports whether a selector of the forms a, !a, a=b and a!=b, with commas in between, is true of some values.
func fits(selector string, value func(key string) (string, bool)) bool {
	for term := range strings.SplitSeq(selector, ",") {
		if term == "" {
			continue
		}
		key, want, not := strings.TrimPrefix(term, "!"), "", strings.HasPrefix(term, "!")
		if before, after, ok := strings.Cut(term, "!="); ok {
			key, want, not = before, after, true
		} else if before, after, ok := strings.Cut(term, "="); ok {
			key, want = before, strings.TrimPrefix(after, "=")
		}
		got, there := value(key)
		if strings.Contains(term, "=") {
			there = there && got == want
		}
		if there == not {
			return false
		}
	}
	return true
}

// after are the changes after a version. The lock is held; what is in the history does not change.
func (s *Server) after(version int) []change {
	i, _ := slices.BinarySearchFunc(s.history, version+1, func(c change, v int) int { return c.version - v })
	return s.history[i:len(s.history):len(s.history)]
}

// watch tells of changes until the client goes, or the time is up.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, t target) {
	q := r.URL.Query()
	since, err := strconv.Atoi(q.Get("resourceVersion"))
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	if err != nil || seconds <= 0 {
		answer(w, bad(fmt.Errorf("a watch without a version or a time")))
		return
	}
	until := time.After(time.Duration(seconds) * time.Second)
	flush := http.NewResponseController(w).Flush
	line := func(kind string, o any) { _ = json.NewEncoder(w).Encode(object{"type": kind, "object": o}) }
	for {
		s.mu.Lock()
		changed, down, events, old := s.changed, s.down, s.after(since), since < s.forgotten
		s.mu.Unlock()
		if old {
			line("ERROR", (&refusal{http.StatusGone, "Expired", "too old resource version"}).status())
			return
		}
		for _, e := range events {
			if e.resource == t.resource && t.has(e.head, q.Get("labelSelector"), q.Get("fieldSelector")) {
				line(e.kind, e.object)
			}
			since = max(since, e.version)
		}
		if flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-time.After(100 * time.Millisecond):
			line("BOOKMARK", object{"kind": "Pod", "metadata": object{"resourceVersion": strconv.Itoa(since)}})
		case <-until:
			return
		case <-r.Context().Done():
			return
		case <-s.stopped:
			return
		case <-down:
			panic(http.ErrAbortHandler)
		}
	}
}
