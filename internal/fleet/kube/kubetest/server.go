// Package kubetest is an API server of Kubernetes for tests: it keeps objects in memory and speaks HTTP as the real one
// does, with watches, pages, dry runs, selectors, conflicts and owners. Jobs make pods, which a function of the test
// plays. It fails in the ways that a real one does, when it is told to.
package kubetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/fleet/kube"
)

// Options are what a cluster is like.
type Options struct {
	// Run plays the container of a pod, in a goroutine of its own; nil = it ends well at once.
	Run func(p *Process) Ending
	// Forbid says what a client may not do, as a reason; nil, and "" = it may. The Access has no namespace if the
	// request has none.
	Forbid func(a kube.Access) string
	// Admit changes an object that is made, as webhooks do, or refuses it; nil = it does neither.
	Admit func(kind string, o map[string]any) error
	// Fault may spoil a request; nil, also as its result = all is well.
	Fault func(r *http.Request) *Fault
	// Ahead is how far the clock of a node is ahead of that of the cluster; nil = it is right.
	Ahead func(node string) time.Duration
	// Grace is how long a pod that is deleted stays if its function does not return; 0 = 1 s.
	Grace time.Duration
	Minor int // version of Kubernetes 1; 0 = 34
}

// A Fault is what goes wrong with a request.
type Fault struct {
	Code       int    // of the answer; 0 = the connection breaks
	Reason     string // Kubernetes' word for it
	Message    string
	RetryAfter int    // seconds; 0 = the answer says nothing of it
	Late       bool   // the request is done all the same; only its answer is lost
	Over       func() // called when nothing more is done of the request; may be nil
}

// A Request is one that the server got.
type Request struct {
	Time   time.Time
	Method string
	Path   string // with the query
	// Access is what it takes; the zero value where everybody may do it, as to ask for the version.
	Access kube.Access
}

// A Server is a cluster.
type Server struct {
	t       testing.TB
	options Options
	http    *httptest.Server
	stopped chan struct{}
	playing sync.WaitGroup

	mu        sync.Mutex
	objects   map[string]map[string]object // by resource, and then namespace/name
	owned     map[string][]place           // by the UID of the owner, in the order in which they were made
	history   []change
	version   int // of the cluster, and its last change's
	forgotten int // changes up to this version are
	changed   chan struct{}
	processes map[string]*Process // by namespace/name of the pod
	requests  []Request
	down      chan struct{} // closed while the server does not answer
}

// Start makes a cluster with the namespace "default" and nodes of these names, each with 4 CPUs and 8 GiB. It goes with
// the test.
func Start(t testing.TB, o Options, nodes ...string) *Server {
	t.Helper()
	if o.Grace == 0 {
		o.Grace = time.Second
	}
	s := &Server{
		t: t, options: o, stopped: make(chan struct{}), objects: map[string]map[string]object{}, owned: map[string][]place{},
		changed: make(chan struct{}), processes: map[string]*Process{}, down: make(chan struct{}),
	}
	s.http = httptest.NewUnstartedServer(s)
	s.http.EnableHTTP2 = true
	s.http.StartTLS()
	t.Cleanup(s.stop)
	s.Put(&kube.Namespace{Meta: kube.Meta{Name: "default"}})
	for _, name := range nodes {
		s.Put(NewNode(name))
	}
	return s
}

// NewNode is a node as Start makes them.
func NewNode(name string) *kube.Node {
	n := &kube.Node{Meta: kube.Meta{Name: name, Labels: map[string]string{
		"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
	}}}
	n.Status.Capacity = kube.Resources{"cpu": "4", "memory": "8Gi", "pods": "110"}
	n.Status.Allocatable = n.Status.Capacity
	n.Status.Conditions = []kube.Condition{{Type: "Ready", Status: "True", Reason: "KubeletReady"}}
	n.Status.Info.Arch, n.Status.Info.System, n.Status.Info.Kernel = "amd64", "linux", "6.12.48"
	n.Status.Info.OS, n.Status.Info.Runtime = "Debian GNU/Linux 13 (trixie)", "containerd://2.1.4"
	return n
}

func (s *Server) stop() {
	close(s.stopped)
	s.mu.Lock()
	for _, p := range s.processes {
		p.cancel()
	}
	s.mu.Unlock()
	s.playing.Wait()
	s.http.CloseClientConnections()
	s.http.Close()
}

// Kubeconfig writes a kubeconfig for the cluster, and returns its path.
func (s *Server) Kubeconfig() string {
	s.t.Helper()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	config := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": []any{map[string]any{"name": "test", "cluster": map[string]any{
			"server": s.http.URL, "certificate-authority-data": certificate,
		}}},
		"users":    []any{map[string]any{"name": "test", "user": map[string]any{"token": token}}},
		"contexts": []any{map[string]any{"name": "test", "context": map[string]any{"cluster": "test", "user": "test"}}},
	}
	text, err := json.Marshal(config)
	if err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// token is what clients have to know.
const token = "kubetest"

// Client opens the cluster for a client that is not patient and has no rate.
func (s *Server) Client() *kube.Client {
	s.t.Helper()
	c, err := kube.Open(kube.Options{Kubeconfig: s.Kubeconfig(), QPS: 1e6, Patience: 5 * time.Second, Tool: "tare/test"})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// Requests are all that the server has got.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Busiest is the largest number of requests in any span of that length.
func (s *Server) Busiest(span time.Duration) int {
	all, most, first := s.Requests(), 0, 0
	for i := range all {
		for all[i].Time.Sub(all[first].Time) > span {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// Down makes the server break all connections until up is called.
func (s *Server) Down() (up func()) {
	s.mu.Lock()
	close(s.down)
	s.mu.Unlock()
	s.http.CloseClientConnections()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.down = make(chan struct{})
	}
}

// Forget makes all versions of the cluster up to now too old: watches of them are told so, and lists that are half
// read.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.forgotten, s.history = s.version, nil
	s.wake()
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	got := Request{Time: time.Now(), Method: r.Method, Path: r.URL.String()}
	if t, err := parseTarget(r); err == nil {
		got.Access = t.access(r)
	}
	s.mu.Lock()
	down := s.down
	s.requests = append(s.requests, got)
	s.mu.Unlock()
	select {
	case <-down:
		panic(http.ErrAbortHandler)
	default:
	}
	if s.options.Fault != nil {
		body, err := io.ReadAll(r.Body) // what the server does late it has to have, although its client is dead by then
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if f := s.options.Fault(r); f != nil {
			s.spoil(w, r, f)
			return
		}
	}
	s.serve(w, r)
}

func (s *Server) spoil(w http.ResponseWriter, r *http.Request, f *Fault) {
	if f.Late {
		s.serve(httptest.NewRecorder(), r)
	}
	if f.Over != nil {
		f.Over()
	}
	if f.Code == 0 {
		panic(http.ErrAbortHandler)
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(f.RetryAfter))
	}
	answer(w, &refusal{f.Code, f.Reason, f.Message})
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+token {
		answer(w, &refusal{http.StatusUnauthorized, "Unauthorized", "Unauthorized"})
		return
	}
	if r.URL.Path == "/version" {
		minor := cmp.Or(s.options.Minor, 34)
		answer(w, map[string]string{"major": "1", "minor": strconv.Itoa(minor), "gitVersion": fmt.Sprintf("v1.%d.4", minor)})
		return
	}
	if strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
		s.review(w, r)
		return
	}
	t, err := parseTarget(r)
	if err != nil {
		answer(w, err)
		return
	}
	if why := s.forbids(t.access(r)); why != "" {
		answer(w, &refusal{http.StatusForbidden, "Forbidden", why})
		return
	}
	switch {
	case t.subresource == "log":
		s.log(w, r, t)
	case r.Method == http.MethodGet && t.name == "" && r.URL.Query().Get("watch") == "true":
		s.watch(w, r, t)
	case r.Method == http.MethodGet && t.name == "":
		answer(w, s.list(r, t))
	default:
		answer(w, s.change(r, t))
	}
}

func (s *Server) forbids(a kube.Access) string {
	if s.options.Forbid == nil {
		return ""
	}
	return s.options.Forbid(a)
}

func (s *Server) review(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Spec struct {
			Attributes kube.Access `json:"resourceAttributes"`
		} `json:"spec"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		answer(w, bad(err))
		return
	}
	why := s.forbids(review.Spec.Attributes)
	answer(w, object{"status": map[string]any{"allowed": why == "", "reason": why}})
}

// A refusal is how the server says no.
type refusal struct {
	code    int
	reason  string
	message string
}

func (r *refusal) Error() string { return r.message }

func bad(err error) *refusal { return &refusal{http.StatusBadRequest, "BadRequest", err.Error()} }

func (r *refusal) status() object {
	return object{
		"apiVersion": "v1", "kind": "Status", "status": "Failure",
		"code": r.code, "reason": r.reason, "message": r.message,
	}
}

// answer writes a value as JSON, or a refusal.
func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if r, ok := value.(*refusal); ok {
		w.WriteHeader(r.code)
		value = r.status()
	}
	_ = json.NewEncoder(w).Encode(value) // the client may have gone
}
