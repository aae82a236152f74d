package docker

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// MakeNetwork implements bench.Projecter with one call.
func (e *Engine) MakeNetwork(ctx context.Context, project string) error {
	if err := e.ready(ctx, project); err != nil {
		return err
	}
	_, err := e.client.NetworkCreate(ctx, bench.ProjectNetwork(project), client.NetworkCreateOptions{
		Driver: "bridge", Labels: e.run.ProjectLabels(project, ""),
	})
	return e.failed("create network "+bench.ProjectNetwork(project), bench.Because(ctx, err))
}

// DropNetwork implements bench.Projecter with one call.
func (e *Engine) DropNetwork(ctx context.Context, project string) error {
	if err := e.ready(ctx, project); err != nil {
		return err
	}
	_, err := e.client.NetworkRemove(ctx, bench.ProjectNetwork(project), client.NetworkRemoveOptions{})
	return e.failed("remove network "+bench.ProjectNetwork(project), bench.Because(ctx, err))
}

// ready checks the project, and that the engine answers.
func (e *Engine) ready(ctx context.Context, project string) error {
	if err := e.run.CheckProject(project); err != nil {
		return err
	}
	_, err := e.ask(ctx)
	return err
}

// join puts a container that is to be made into its project.
func (c *dockerContainer) join(options *client.ContainerCreateOptions) error {
	m := c.spec.Member
	if m == nil {
		return nil
	}
	if err := c.engine.run.CheckProject(m.Project); err != nil {
		return err
	}
	name := bench.ProjectNetwork(m.Project)
	options.Config.Labels = c.engine.run.ProjectLabels(m.Project, m.Service)
	options.HostConfig.NetworkMode = container.NetworkMode(name)
	options.NetworkingConfig = &network.NetworkingConfig{
		EndpointsConfig: map[string]*network.EndpointSettings{name: {Aliases: []string{m.Service}}},
	}
	return nil
}

// Members implements bench.Projecter.
func (e *Engine) Members(ctx context.Context, project string) ([]bench.Member, error) {
	if err := e.ready(ctx, project); err != nil {
		return nil, err
	}
	found, err := e.client.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: client.Filters{}.Add("label", bench.ProjectLabel+"="+project),
	})
	if err != nil {
		return nil, e.failed("list containers", bench.Because(ctx, err))
	}
	var all []bench.Member
	for _, c := range found.Items {
		answer, err := e.client.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
		if isNotFound(err) {
			continue // it has just been removed
		}
		if err != nil {
			return nil, e.failed("inspect "+c.ID, bench.Because(ctx, err))
		}
		all = append(all, memberOf(c.Labels[bench.ServiceLabel], answer.Container))
	}
	slices.SortFunc(all, func(a, b bench.Member) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

func memberOf(service string, got container.InspectResponse) bench.Member {
	m := bench.Member{ID: got.ID, Service: service, Image: got.Image}
	if s := got.State; s != nil {
		m.Status, m.Running, m.Exit = string(s.Status), s.Running, s.ExitCode
		if s.Health != nil && s.Health.Status != container.NoHealthcheck {
			m.Health = string(s.Health.Status)
		}
	}
	m.Volumes = anonymousVolumes(got)
	if got.NetworkSettings == nil {
		return m
	}
	for port, outside := range got.NetworkSettings.Ports {
		for _, b := range outside {
			number, err := strconv.ParseUint(b.HostPort, 10, 16)
			if port.Proto() == network.TCP && err == nil && number > 0 {
				m.Ports = append(m.Ports, netip.AddrPortFrom(b.HostIP, uint16(number)))
			}
		}
	}
	slices.SortFunc(m.Ports, netip.AddrPort.Compare)
	return m
}

// anonymousVolumes are the volumes that the engine has made for a container. Older versions do not label them, so they
// are those that have a name as of the engine, and were not asked for by it.
func anonymousVolumes(got container.InspectResponse) (names []string) {
	for _, at := range got.Mounts {
		if at.Type == mount.TypeVolume && bench.IsAnonymousVolume(at.Name) && !asksFor(got.HostConfig, at.Name) {
			names = append(names, at.Name)
		}
	}
	return names
}

func asksFor(config *container.HostConfig, volume string) bool {
	return config == nil ||
		slices.ContainsFunc(config.Binds, func(bind string) bool { return strings.HasPrefix(bind, volume+":") }) ||
		slices.ContainsFunc(config.Mounts, func(m mount.Mount) bool { return m.Source == volume })
}

// maxPrinted is how much of a container's output Printed returns, in bytes.
const maxPrinted = 2 << 10

// Printed implements bench.Projecter.
func (e *Engine) Printed(ctx context.Context, id string) ([]byte, error) {
	answer, err := e.client.ContainerLogs(ctx, id,
		client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "20"})
	if err != nil {
		return nil, e.failed("logs of "+id, bench.Because(ctx, err))
	}
	defer func() { _ = answer.Close() }() // it was only read
	last := &stdstream.Last{Limit: maxPrinted}
	err = stdstream.Copy(last, last, answer)
	return last.Text, e.failed("logs of "+id, err)
}

// RemoveProject implements bench.Projecter.
func (e *Engine) RemoveProject(ctx context.Context, project string, volumes ...string) error {
	if err := e.ready(ctx, project); err != nil {
		return err
	}
	left := owned.Leftovers{Engine: e.cfg.Name, IsDead: func(run string) bool { return run == e.cfg.Run }}
	err := e.listLabelled(ctx, bench.ProjectLabel+"="+project, left.Add)
	for _, l := range left.Found {
		err = errors.Join(err, e.RemoveLeftover(ctx, l))
	}
	for _, name := range volumes {
		err = errors.Join(err, e.removeVolume(ctx, name))
	}
	return err
}

// Composing implements bench.Composable.
func (e *Engine) Composing(ctx context.Context, spec bench.Spec) (bench.Composing, error) {
	if _, err := e.ask(ctx); err != nil {
		return bench.Composing{}, err
	}
	l, err := e.images.Load(ctx, store{e}, spec.Image)
	return bench.Composing{
		Programs: []string{"docker compose", "docker-compose"},
		Env:      []string{"DOCKER_CONTEXT=", "DOCKER_HOST=" + e.client.DaemonHost()},
		Image:    l.Name,
	}, err
}

// Adopt implements bench.Composable.
func (e *Engine) Adopt(ctx context.Context, id string, spec bench.Spec) (bench.Container, error) {
	l, err := e.images.Load(ctx, store{e}, spec.Image)
	if err != nil {
		return nil, err
	}
	return &dockerContainer{engine: e, name: id, id: id, image: l, spec: spec}, nil
}
