package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/fleet/kube/kubetest"
)

// job is one for a node.
func job(name, node string) *kube.Job {
	j := &kube.Job{Meta: kube.Meta{Name: name, Labels: map[string]string{kube.LabelRun: "f1"}}}
	j.Spec.Template.Labels = map[string]string{kube.LabelRun: "f1"}
	j.Spec.Template.Spec = kube.PodSpec{
		RestartPolicy: "Never", Affinity: kube.OnNode(node),
		Containers: []kube.Container{{
			Name: "tare", Image: "tare:1", Env: []kube.EnvVar{kube.EnvField("NODE", "spec.nodeName")},
		}},
	}
	return j
}

func TestObjects(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{}, "a")
	c := s.Client()
	ctx := t.Context()
	if v, err := c.Version(ctx); err != nil || v != (kube.Version{Text: "v1.34.4", Major: 1, Minor: 34}) {
		t.Fatalf("Version = %v, %v", v, err)
	}
	root := &kube.ConfigMap{Meta: kube.Meta{Name: "root", Labels: map[string]string{kube.LabelRun: "f1"}}}
	root.Data = map[string]string{"plan": "x"}
	dry := *root
	if err := c.DryRun(ctx, &dry); err != nil || s.Objects("configmaps") != 0 {
		t.Fatalf("DryRun: %v, and %d objects are there", err, s.Objects("configmaps"))
	}
	if err := c.Create(ctx, root); err != nil {
		t.Fatal(err)
	}
	if root.UID == "" || root.Namespace != "default" || root.Created.IsZero() {
		t.Errorf("Create does not tell what the server made: %+v", root.Meta)
	}
	if err := c.Create(ctx, &kube.ConfigMap{Meta: kube.Meta{Name: "root"}}); !errors.Is(err, kube.ErrExists) {
		t.Errorf("a second one: %v", err)
	}
	secret := &kube.Secret{Meta: kube.Meta{Name: "s", Owners: []kube.Owner{kube.OwnerOf(root)}}}
	secret.Data = map[string][]byte{"k": {0, 1}}
	if err := c.Create(ctx, secret); err != nil {
		t.Fatal(err)
	}
	got := &kube.Secret{Meta: kube.Meta{Name: "s"}}
	if err := c.Get(ctx, got); err != nil || !slices.Equal(got.Data["k"], []byte{0, 1}) {
		t.Errorf("Get = %v, %v", got, err)
	}
	other := *root
	other.UID = "another"
	if err := c.Delete(ctx, &other); !errors.Is(err, kube.ErrConflict) {
		t.Errorf("deleting another object of that name: %v", err)
	}
	if err := c.Delete(ctx, root); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(ctx, got); !errors.Is(err, kube.ErrNotFound) {
		t.Errorf("what a deleted object owns is still there: %v", err)
	}
}

func TestListsInPages(t *testing.T) {
	var names []string
	for i := range 1201 {
		names = append(names, fmt.Sprintf("n%04d", i))
	}
	forget := sync.OnceFunc(func() {})
	s := kubetest.Start(t, kubetest.Options{Fault: func(r *http.Request) *kubetest.Fault {
		if r.URL.Query().Has("continue") {
			forget()
		}
		return nil
	}}, names...)
	forget = sync.OnceFunc(s.Forget)
	c := s.Client()
	all, err := c.Nodes(t.Context(), "")
	if err != nil || len(all) != len(names) || all[1200].Name != "n1200" {
		t.Fatalf("%d nodes, %v", len(all), err)
	}
	if all[7].Status.Allocatable["memory"] != "8Gi" || all[7].Status.Info.Arch != "amd64" {
		t.Errorf("a node is %+v", all[7])
	}
	if c.Calls() != 5 { // two pages, and after the second was too old three
		t.Errorf("%d calls", c.Calls())
	}
	few, err := c.Nodes(t.Context(), "kubernetes.io/hostname=n0003,kubernetes.io/arch")
	if err != nil || len(few) != 1 || few[0].Name != "n0003" {
		t.Errorf("of a selector: %d nodes, %v", len(few), err)
	}
}

// A Job's pod is watched from beginning to end, and its log read, while the server forgets, breaks connections and
// stops answering for a while.
func TestWatch(t *testing.T) {
	begin := make(chan struct{})
	s := kubetest.Start(t, kubetest.Options{Run: func(p *kubetest.Process) kubetest.Ending {
		p.Running()
		fmt.Fprintf(p, "on %s\n", p.Env("NODE"))
		select {
		case <-begin:
		case <-p.Context().Done():
		}
		return kubetest.Ending{Code: 3, Message: "digest"}
	}}, "a", "b")
	c := s.Client()
	for _, node := range []string{"a", "b"} {
		if err := c.Create(t.Context(), job("j-"+node, node)); err != nil {
			t.Fatal(err)
		}
	}
	stop := errors.New("all is seen")
	var once sync.Once
	running, ended := map[string]bool{}, map[string]bool{}
	err := c.Watch(t.Context(), "", kube.LabelRun+"=f1", func(change kube.Change) error {
		p := change.Pod
		switch {
		case change.Gone && !ended[p.Spec.Node]:
			t.Errorf("%s is gone before it ended", p.Name)
		case p.Status.Phase == "Running":
			running[p.Spec.Node] = true
		case p.Status.Phase == "Failed":
			end := p.ContainerOf("tare").State.Terminated
			if end == nil || end.ExitCode != 3 || end.Message != "digest" {
				t.Errorf("%s ended as %+v", p.Name, end)
			}
			ended[p.Spec.Node] = true
		}
		if len(running) == 2 {
			once.Do(func() {
				up := s.Down()
				s.Forget()
				time.AfterFunc(300*time.Millisecond, func() { up(); close(begin) })
			})
		}
		if len(ended) == 2 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	pods, err := kube.List[kube.Pod](t.Context(), c, kube.Query{Labels: "batch.kubernetes.io/job-name=j-b"})
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	if text := readLog(t, c, pods[0].Name, 1<<20); text != "on b\n" {
		t.Errorf("the log is %q", text)
	}
	if text := readLog(t, c, pods[0].Name, 3); text != "on " {
		t.Errorf("the beginning of the log is %q", text)
	}
}

func readLog(t *testing.T, c *kube.Client, pod string, limit int64) string {
	t.Helper()
	log, err := c.Log(t.Context(), "", pod, "tare", limit)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	text, err := io.ReadAll(log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Pods that went while nobody listened are told of.
func TestWatchTellsWhatItMissed(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{Run: func(p *kubetest.Process) kubetest.Ending {
		p.Running()
		<-p.Context().Done()
		return kubetest.Ending{}
	}}, "a")
	c := s.Client()
	j := job("j", "a")
	if err := c.Create(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	var seen atomic.Int32
	err := c.Watch(t.Context(), "", "", func(change kube.Change) error {
		if change.Gone {
			return gone
		}
		if change.Pod.Status.Phase == "Running" && seen.Add(1) == 1 {
			up := s.Down()
			s.Evict("a")
			time.AfterFunc(200*time.Millisecond, func() { s.Forget(); up() })
		}
		return nil
	})
	if !errors.Is(err, gone) {
		t.Fatal(err)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{}, "a")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := s.Client().Watch(ctx, "", "", func(kube.Change) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// faults gives the first requests of a method the faults, one after the other.
func faults(method string, all ...*kubetest.Fault) func(*http.Request) *kubetest.Fault {
	var n atomic.Int32
	return func(r *http.Request) *kubetest.Fault {
		if r.Method != method {
			return nil
		}
		if i := int(n.Add(1)); i <= len(all) {
			return all[i-1]
		}
		return nil
	}
}

func TestAskedAgain(t *testing.T) {
	for name, fault := range map[string]*kubetest.Fault{
		"busy": {Code: 429}, "broken": {Code: 500}, "bad gateway": {Code: 502}, "cut": {},
		"late": {Late: true}, "late error": {Late: true, Code: 504},
	} {
		t.Run(name, func(t *testing.T) {
			s := kubetest.Start(t, kubetest.Options{Fault: faults("POST", fault, fault)}, "a")
			c := s.Client()
			j := job("j", "a")
			if err := c.Create(t.Context(), j); err != nil || j.UID == "" {
				t.Fatalf("%v, UID %q", err, j.UID)
			}
			if n := s.Objects("jobs"); n != 1 {
				t.Errorf("%d Jobs are there", n)
			}
		})
	}
	t.Run("somebody else's", func(t *testing.T) {
		s := kubetest.Start(t, kubetest.Options{Fault: faults("POST", &kubetest.Fault{})}, "a")
		s.Put(&kube.ConfigMap{Meta: kube.Meta{Name: "c", Labels: map[string]string{kube.LabelRun: "f2"}}})
		ours := &kube.ConfigMap{Meta: kube.Meta{Name: "c", Labels: map[string]string{kube.LabelRun: "f1"}}}
		err := s.Client().Create(t.Context(), ours)
		if !errors.Is(err, kube.ErrExists) {
			t.Error(err)
		}
	})
	t.Run("deleted by the first", func(t *testing.T) {
		s := kubetest.Start(t, kubetest.Options{Fault: faults("DELETE", &kubetest.Fault{Late: true})}, "a")
		c := s.Client()
		m := &kube.ConfigMap{Meta: kube.Meta{Name: "c"}}
		if err := errors.Join(c.Create(t.Context(), m), c.Delete(t.Context(), m)); err != nil {
			t.Error(err)
		}
	})
}

func TestErrors(t *testing.T) {
	rbac := `jobs.batch is forbidden: User "u" cannot create resource "jobs" in API group "batch"`
	for name, c := range map[string]struct {
		fault *kubetest.Fault
		is    error
		words []string
	}{
		"rights": {
			&kubetest.Fault{Code: 403, Reason: "Forbidden", Message: rbac}, kube.ErrForbidden,
			[]string{`cannot create Job "j" in namespace "default"`, "tare fleet rbac"},
		},
		"quota": {&kubetest.Fault{Code: 403, Message: "exceeded quota: q"}, kube.ErrForbidden, []string{"larger quota"}},
		"security": {
			&kubetest.Fault{Code: 403, Message: `violates PodSecurity "restricted:latest"`}, kube.ErrForbidden,
			[]string{"enforce"},
		},
		"login": {&kubetest.Fault{Code: 401, Message: "Unauthorized"}, kube.ErrLogin, []string{"Log in"}},
		"invalid": {
			&kubetest.Fault{Code: 422, Reason: "Invalid", Message: "spec: no\x1b[31m"}, kube.ErrInvalid,
			[]string{`spec: no\x1b[31m`},
		},
		"busy":       {&kubetest.Fault{Code: 429, RetryAfter: 3600, Message: "later"}, nil, []string{"--qps"}},
		"redirected": {&kubetest.Fault{Code: 302, Message: "elsewhere"}, nil, []string{"elsewhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := kubetest.Start(t, kubetest.Options{Fault: func(*http.Request) *kubetest.Fault { return c.fault }}, "a")
			err := s.Client().Create(t.Context(), job("j", "a"))
			if err == nil || c.is != nil && !errors.Is(err, c.is) {
				t.Fatalf("%v is not %v", err, c.is)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if n := len(s.Requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestAllowed(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{Forbid: func(a kube.Access) string {
		if a.Resource == "pods" && a.Subresource == "log" {
			return "no logs"
		}
		return ""
	}})
	c := s.Client()
	for _, a := range []kube.Access{
		{Verb: "create", Group: "batch", Resource: "jobs"},
		{Verb: "get", Resource: "pods", Subresource: "log"},
	} {
		ok, why, err := c.Allowed(t.Context(), a)
		if err != nil || ok != (a.Group == "batch") || !ok && why != "no logs" {
			t.Errorf("%+v: %v, %q, %v", a, ok, why, err)
		}
	}
}

func TestNamesStayInTheirPlace(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{}).Client()
	for _, name := range []string{"..", ".", "a/../../secrets/b", "a%2fb"} {
		err := c.Get(t.Context(), &kube.Pod{Meta: kube.Meta{Name: name}})
		wantError(t, err, "is no name")
	}
	if c.Calls() != 0 {
		t.Error("the server was asked")
	}
}

func TestKubeconfigs(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	_, err := kube.Open(kube.Options{})
	wantError(t, err, filepath.Join(dir, "none"))
	_, err = kube.Open(kube.Options{Kubeconfig: filepath.Join(dir, "x")})
	wantError(t, err, filepath.Join(dir, "x"))
	file := filepath.Join(dir, "config")
	text := `{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: k, cluster: {server: "https://u:p@127.0.0.1:1"}}],
contexts: [{name: c, context: {cluster: k, namespace: there}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := kube.Open(kube.Options{Kubeconfig: file})
	if err != nil {
		t.Fatal(err)
	}
	if c.Server() != "https://127.0.0.1:1" || c.Namespace() != "there" {
		t.Errorf("%s, %s", c.Server(), c.Namespace())
	}
	_, err = kube.Open(kube.Options{Kubeconfig: file, Context: "other"})
	wantError(t, err, "get-contexts")
	c, err = kube.Open(kube.Options{Kubeconfig: file, Patience: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Version(t.Context())
	wantError(t, err, "127.0.0.1:1")
	if !errors.Is(err, kube.ErrUnreachable) {
		t.Errorf("nobody listens: %v", err)
	}
}

func wantError(t *testing.T, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%v does not say %q", err, words)
	}
}

func TestQuantities(t *testing.T) {
	for text, want := range map[kube.Quantity]float64{
		"250m": 0.25, "2": 2, "64Mi": 64 << 20, "1e3": 1000, "1.5Gi": 1.5 * (1 << 30),
		"100k": 1e5, "3E": 3e18, "5n": 5e-9, "0": 0,
	} {
		if got, ok := text.Value(); !ok || got < want*(1-1e-12) || got > want*(1+1e-12) {
			t.Errorf("%s = %v, %v", text, got, ok)
		}
	}
	for _, text := range []kube.Quantity{"", "x", "inf", "0x1", "1e999", "NaN", "Mi", "1_0"} {
		if got, ok := text.Value(); ok {
			t.Errorf("%q = %v", text, got)
		}
	}
}

// What was settled means the same cluster when the environment is another, also if several files say which it is.
func TestSettled(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"a": "current-context: x\ncontexts: [{name: x, context: {cluster: its, namespace: space}}]",
		"b": "clusters: [{name: its, cluster: {server: \"https://192.0.2.1:6443\"}}]",
	} {
		if err := os.WriteFile(name, []byte("apiVersion: v1\nkind: Config\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBECONFIG", "a:none:b")
	o := kube.Options{}.Settled()
	want := kube.Options{Kubeconfig: filepath.Join(dir, "a") + ":" + filepath.Join(dir, "b"), Context: "x", Namespace: "space"}
	if o.Kubeconfig != want.Kubeconfig || o.Context != want.Context || o.Namespace != want.Namespace {
		t.Errorf("Settled = %+v, want %+v", o, want)
	}
	t.Setenv("KUBECONFIG", "/nowhere")
	t.Chdir("/")
	c, err := kube.Open(o)
	if err != nil || c.Server() != "https://192.0.2.1:6443" || c.Namespace() != "space" {
		t.Errorf("Open of it: %+v, %v", c, err)
	}
}
