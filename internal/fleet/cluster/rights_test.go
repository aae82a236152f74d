package cluster

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/fleet/kube/kubetest"
)

func TestRights(t *testing.T) {
	text, err := Rights([]string{"bench"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"kind: ClusterRole\n", "kind: Role\n", "namespace: bench\n", "- nodes\n", "- pods/log\n", "- watch\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	for _, never := range []string{"*", "patch", "update", "deletecollection", "exec"} {
		if strings.Contains(string(text), never) {
			t.Errorf("%q in:\n%s", never, text)
		}
	}
}

// printedRights are what the Roles allow that 'tare fleet rbac' prints, as the API server reads them.
func printedRights(t *testing.T, namespace string) map[kube.Access]bool {
	t.Helper()
	text, err := Rights([]string{namespace})
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[kube.Access]bool{}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var role struct {
			Kind string
			Meta struct {
				Namespace string
			} `yaml:"metadata"`
			Rules []struct {
				Groups    []string `yaml:"apiGroups"`
				Resources []string
				Verbs     []string
			}
		}
		err := documents.Decode(&role)
		if errors.Is(err, io.EOF) {
			return allowed
		}
		if err != nil || (role.Kind == "ClusterRole") != (role.Meta.Namespace == "") {
			t.Fatalf("%v in:\n%s", err, text)
		}
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				resource, sub, _ := strings.Cut(rule.Resources[0], "/")
				a := kube.Access{
					Verb: verb, Group: rule.Groups[0], Resource: resource, Subresource: sub, Namespace: role.Meta.Namespace,
				}
				if len(rule.Groups) != 1 || len(rule.Resources) != 1 || allowed[a] {
					t.Errorf("the rule %+v is not the only one of its resource and verb", rule)
				}
				allowed[a] = true
			}
		}
	}
}

// Clients that may do what the printed rules allow, and nothing else, plan, run, find and remove a fleet. Each rule is
// needed for that.
func TestRightsAreUsed(t *testing.T) {
	allowed := printedRights(t, "default")
	s := kubetest.Start(t, kubetest.Options{Run: good, Forbid: func(a kube.Access) string {
		if allowed[a] {
			return ""
		}
		return "no rule allows it"
	}}, "a", "b", "c")
	c := s.Client()
	r := request()
	r.Fleet.Rounds = 5 // with fewer there is a note
	f, err := CheckFirst(t.Context(), c, r)
	if err != nil || len(f.Problems)+len(f.Notes) > 0 {
		t.Fatalf("%v; problems: %q; notes: %q", err, f.Problems, f.Notes)
	}
	q := &kube.ResourceQuota{Meta: kube.Meta{Name: "few", Namespace: "default"}}
	q.Spec.Hard = kube.Resources{"pods": "2"} // so that it is asked why a Job has no pod
	s.Put(q)
	p := &f.Plan
	first, err := newSession(c, p, 1, []int{0, 1, 2}, Hooks{}, quick)
	if err == nil {
		err = errors.Join(first.makeRoots(t.Context()), first.makeJobs(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, p, newStore().hooks()) // another client goes on
	if all, err := List(t.Context(), c, "default"); err != nil || len(all) != 1 {
		t.Errorf("%d fleets are listed, %v", len(all), err)
	}
	if _, err := Find(t.Context(), c, "default", p.Fleet.ID); err != nil {
		t.Error(err)
	}
	mustClean(t, s, p)
	used := map[kube.Access]bool{}
	for _, r := range s.Requests() {
		used[r.Access] = true
		everybody := r.Access == kube.Access{}
		large := r.Access.Namespace == firstOfSeveral("default") // where a fleet would be that is too large for one
		if !allowed[r.Access] && !everybody && !large {
			t.Errorf("no rule allows %s %s", r.Method, r.Path)
		}
	}
	for a := range allowed {
		if !used[a] {
			t.Errorf("nobody needs %+v", a)
		}
	}
}
