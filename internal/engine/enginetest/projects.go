package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// "Members lists the containers of a project, whoever made them, by service. … RemoveProject removes
// every container, network and volume of a project of this run."
func projects(t *testing.T, s *suite, p bench.Projecter) {
	project := bench.ProjectName(s.env.Run, "0f")
	noError(t, s.engine.Prepare(t.Context(), bench.Spec{}))
	remove := func() {
		if err := p.RemoveProject(context.Background(), project); err != nil {
			t.Errorf("RemoveProject: %v", err)
		}
	}
	t.Cleanup(remove) // it may be called again
	noError(t, p.MakeNetwork(t.Context(), project))
	says := s.member(t, project, "says", "echo", "hello\x1b")
	fails := s.member(t, project, "fails", "exit", "3")
	holds := s.member(t, project, "holds", "hold")
	for _, c := range []bench.Container{says, fails} {
		if _, err := c.Wait(t.Context()); err != nil {
			t.Fatalf("Wait: %v", err)
		}
	}
	wantMembers(t, p, project, "fails exited 3", "holds running 0", "says exited 0")
	if text, err := p.Printed(t.Context(), says.ID()); err != nil || strings.TrimSpace(string(text)) != "hello\x1b" {
		t.Errorf("Printed = %q, %v", text, err)
	}
	s.adopts(t, project, holds)
	if err := p.DropNetwork(t.Context(), project); err == nil {
		t.Error("DropNetwork removes a network in use")
	}
	other := bench.ProjectName("another", "0f")
	if p.MakeNetwork(t.Context(), other) == nil || p.DropNetwork(t.Context(), other) == nil ||
		p.RemoveProject(t.Context(), other) == nil {
		t.Error("a project of another run is made or removed")
	}
	remove()
	wantMembers(t, p, project)
	if err := p.DropNetwork(t.Context(), project); err == nil {
		t.Error("RemoveProject leaves the network")
	}
}

func memberSpec(s *suite, project, service string, task ...string) bench.Spec {
	spec := s.spec(task...)
	spec.Network, spec.Member = "bridge", &bench.Membership{Project: project, Service: service}
	return spec
}

// member starts a container of a project.
func (s *suite) member(t *testing.T, project, service string, task ...string) bench.Container {
	t.Helper()
	c, err := s.engine.Create(t.Context(), memberSpec(s, project, service, task...))
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatalf("Start: %v", err)
	}
	return c
}

// adopts checks a container that is taken for one that Create has made.
func (s *suite) adopts(t *testing.T, project string, c bench.Container) {
	t.Helper()
	composable, ok := bench.As[bench.Composable](s.engine)
	if !ok {
		return
	}
	spec := memberSpec(s, project, "holds", "hold")
	how, err := composable.Composing(t.Context(), spec)
	if err != nil || len(how.Programs) == 0 || how.Image == "" {
		t.Errorf("Composing = %+v, %v", how, err)
	}
	adopted, err := composable.Adopt(t.Context(), c.ID(), spec)
	if err != nil {
		t.Fatalf("Adopt: %v", err)
	}
	applied, err := adopted.Inspect(t.Context())
	if err == nil {
		err = bench.Attest(spec, applied)
	}
	if err != nil {
		t.Errorf("Inspect of the adopted container: %v", err)
	}
}

// wantMembers wants these members, each "SERVICE STATUS EXIT".
func wantMembers(t *testing.T, p bench.Projecter, project string, want ...string) {
	t.Helper()
	members, err := p.Members(t.Context(), project)
	if err != nil {
		t.Fatalf("Members: %v", err)
	}
	var got []string
	for _, m := range members {
		if m.Running != (m.Status == "running") || m.ID == "" || m.Image == "" {
			t.Errorf("%+v", m)
		}
		got = append(got, fmt.Sprint(m.Service, " ", m.Status, " ", m.Exit))
	}
	if !slices.Equal(got, want) {
		t.Errorf("members %q, want %q", got, want)
	}
}
