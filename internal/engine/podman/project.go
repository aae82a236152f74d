package podman

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// MakeNetwork implements bench.Projecter with one call. It asks for what `podman network create` does
// by default.
func (e *Engine) MakeNetwork(ctx context.Context, project string) error {
	c, err := e.projectClient(ctx, project)
	if err != nil {
		return err
	}
	name := bench.ProjectNetwork(project)
	return c.failed("create network "+name, c.post(ctx, "/networks/create", map[string]any{
		"name": name, "driver": "bridge", "dns_enabled": true, "labels": e.run.ProjectLabels(project, ""),
	}, nil))
}

// DropNetwork implements bench.Projecter with one call.
func (e *Engine) DropNetwork(ctx context.Context, project string) error {
	c, err := e.projectClient(ctx, project)
	if err != nil {
		return err
	}
	name := bench.ProjectNetwork(project)
	return c.failed("remove network "+name,
		c.call(ctx, http.MethodDelete, "/networks/"+url.PathEscape(name), nil, nil))
}

// projectClient checks the project, and returns the default client.
func (e *Engine) projectClient(ctx context.Context, project string) (*client, error) {
	if err := e.run.CheckProject(project); err != nil {
		return nil, err
	}
	return e.client(ctx, "")
}

// join puts a container that is to be made into its project.
func (e *Engine) join(m bench.Membership, r *request) error {
	if err := e.run.CheckProject(m.Project); err != nil {
		return err
	}
	r.Labels = e.run.ProjectLabels(m.Project, m.Service)
	r.Network.Mode = "bridge"
	r.Networks = map[string]any{
		bench.ProjectNetwork(m.Project): map[string][]string{"aliases": {m.Service}},
	}
	return nil
}

// Members implements bench.Projecter.
func (e *Engine) Members(ctx context.Context, project string) ([]bench.Member, error) {
	c, err := e.projectClient(ctx, project)
	if err != nil {
		return nil, err
	}
	found, err := c.containersWith(ctx, bench.ProjectLabel+"="+project)
	if err != nil {
		return nil, err
	}
	var all []bench.Member
	for _, l := range found {
		got, err := c.inspectContainer(ctx, l.ID)
		if gone(err) {
			continue // it has just been removed
		}
		if err != nil {
			return nil, c.failed("inspect "+l.ID, err)
		}
		all = append(all, memberOf(l, got))
	}
	slices.SortFunc(all, func(a, b bench.Member) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

func memberOf(l listed, got *inspection) bench.Member {
	m := bench.Member{
		ID: l.ID, Service: l.Labels[bench.ServiceLabel], Image: got.Image,
		Status: got.State.Status, Running: got.State.Running, Exit: got.State.ExitCode, Health: got.State.Health.Status,
	}
	for _, at := range got.Mounts {
		if at.Type == "volume" && bench.IsAnonymousVolume(at.Name) {
			m.Volumes = append(m.Volumes, at.Name)
		}
	}
	for inside, outside := range got.NetworkSettings.Ports {
		for _, b := range outside {
			number, err := strconv.ParseUint(b.HostPort, 10, 16)
			if err != nil || number == 0 || !strings.HasSuffix(inside, "/tcp") {
				continue
			}
			at, _ := netip.ParseAddr(b.HostIP) // empty = every address of the host
			m.Ports = append(m.Ports, netip.AddrPortFrom(at, uint16(number)))
		}
	}
	slices.SortFunc(m.Ports, netip.AddrPort.Compare)
	return m
}

// maxPrinted is how much of a container's output Printed returns, in bytes.
const maxPrinted = 2 << 10

// Printed implements bench.Projecter.
func (e *Engine) Printed(ctx context.Context, id string) ([]byte, error) {
	c, err := e.client(ctx, "")
	if err != nil {
		return nil, err
	}
	path := "/containers/" + url.PathEscape(id) + "/logs?stdout=true&stderr=true&tail=20"
	answer, err := c.send(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return nil, c.failed("logs of "+id, err)
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	last := &stdstream.Last{Limit: maxPrinted}
	err = stdstream.Copy(last, last, answer.Body)
	return last.Text, c.failed("logs of "+id, err)
}

// RemoveProject implements bench.Projecter.
func (e *Engine) RemoveProject(ctx context.Context, project string, volumes ...string) error {
	c, err := e.projectClient(ctx, project)
	if err != nil {
		return err
	}
	left := owned.Leftovers{Engine: e.cfg.Name, IsDead: func(run string) bool { return run == e.cfg.Run }}
	err = c.listLabelled(ctx, bench.ProjectLabel+"="+project, left.Add)
	for _, l := range left.Found {
		err = errors.Join(err, e.RemoveLeftover(ctx, l))
	}
	for _, name := range volumes {
		err = errors.Join(err, c.removeAnonymous(ctx, name))
	}
	return errors.Join(err, c.removePod(ctx, podPrefix+project))
}

// removeAnonymous removes a volume if it exists and nobody has named it. Podman refuses that while it is in use.
func (c *client) removeAnonymous(ctx context.Context, name string) error {
	path := "/volumes/" + url.PathEscape(name)
	var found struct{ Anonymous bool }
	err := c.get(ctx, path+"/json", &found)
	if err == nil && found.Anonymous {
		err = c.remove(ctx, path)
	}
	if gone(err) {
		return nil
	}
	return c.failed("remove volume "+name, err)
}

// podPrefix begins the name of the pod into which newer versions of podman-compose put a project. A pod has no
// label of the project.
const podPrefix = "pod_"

// podRun is the run whose project a pod has; empty if no run has made it.
func podRun(pod string) string {
	project, ok := strings.CutPrefix(pod, podPrefix)
	if !ok {
		return ""
	}
	return bench.ProjectRun(project)
}

// listPods lists the pods of projects, as list does.
func (c *client) listPods(ctx context.Context, add func(run, kind, id string)) error {
	var all []struct{ Name string }
	if err := c.get(ctx, "/pods/json", &all); err != nil {
		return c.failed("list pods", err)
	}
	for _, p := range all {
		add(podRun(p.Name), owned.KindPod, p.Name)
	}
	return nil
}

// removePod removes a pod with what is in it, if it exists.
func (c *client) removePod(ctx context.Context, name string) error {
	return c.failed("remove pod "+name, c.remove(ctx, "/pods/"+url.PathEscape(name)+"?force=true"))
}

// Composing implements bench.Composable. A compose program runs podman itself, which makes the
// containers without a service unless the user names one.
func (e *Engine) Composing(ctx context.Context, spec bench.Spec) (bench.Composing, error) {
	c, err := e.client(ctx, "")
	if err != nil {
		return bench.Composing{}, err
	}
	l, err := e.images.Load(ctx, c, spec.Image)
	how := bench.Composing{Programs: []string{"podman-compose"}, Image: l.Name, Ulimits: map[string]uint64{}}
	if host := e.host(); host != "" {
		how.Env = []string{"CONTAINER_HOST=" + host}
	}
	for _, limit := range c.rlimits {
		how.Ulimits[limit.Type] = limit.Hard
	}
	return how, err
}

// Adopt implements bench.Composable.
func (e *Engine) Adopt(ctx context.Context, id string, spec bench.Spec) (bench.Container, error) {
	c, err := e.client(ctx, "")
	if err != nil {
		return nil, err
	}
	l, err := e.images.Load(ctx, c, spec.Image)
	if err != nil {
		return nil, err
	}
	return &container{client: c, run: e.run, name: id, id: id, image: l, spec: spec, profile: e.seccompFile()}, nil
}
