package app

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/host"
	"github.com/tare-bench/tare/internal/remote"
)

// Lend returns what a server needs that lends engines of this machine to one client, and of images
// beside tare's own those that are named. Who serves adds the client's way here, a log and limits.
// The App needs a state directory.
func (a *App) Lend(offered []Instance, images []string) remote.Config {
	id := newRunID(a.config.Now())
	return remote.Config{
		Version: a.config.Version,
		Machine: func(ctx context.Context) remote.Machine { return a.thisMachine(ctx, id, offered) },
		Open:    func() (remote.EngineHost, error) { return a.openLending(id, offered) },
		Permit:  func(spec bench.Spec) error { return permit(spec, images) },
	}
}

// thisMachine is what a client is told of this machine. Others that use it are among its warnings.
func (a *App) thisMachine(ctx context.Context, id string, offered []Instance) remote.Machine {
	facts := host.Facts(fsRoot)
	checks := host.Checks(ctx, host.Examination{Root: fsRoot, Facts: facts, Dirs: []string{existing(a.state)}})
	return remote.Machine{
		Host: facts, Engines: Names(offered), Warnings: append(checks, disturbers(a.othersUnderWay(id))...),
	}
}

// lending is what one client works with. It has a directory like a run's, so that
// 'tare clean' finds what is left where this process dies.
type lending struct {
	dir        *runDir
	engineSite *EngineSite
	instances  []Instance
}

func (a *App) openLending(id string, offered []Instance) (remote.EngineHost, error) {
	dir, err := a.newRunDir(id, offered)
	if err != nil {
		return nil, err
	}
	return lending{dir, a.runSite(id), offered}, nil
}

// Name implements remote.EngineHost.
func (l lending) Name() string { return l.dir.id }

// Engine implements remote.EngineHost.
func (l lending) Engine(name string) (bench.Engine, error) {
	i := slices.IndexFunc(l.instances, func(i Instance) bool { return i.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: engine %.80q is not served here; these are: %s", bench.ErrUnsupported, name,
			strings.Join(Names(l.instances), ", "))
	}
	return l.engineSite.Engine(l.instances[i])
}

// Close implements remote.EngineHost.
func (l lending) Close() error { return l.dir.remove() }

// errForbidden is wrapped by what a server does not let clients do.
var errForbidden = errors.New("this server does not allow it")

// A permission says what a client may ask for in one field of a bench.Spec: why what
// spec has there is refused, or nothing.
type permission func(spec bench.Spec, images []string) (refused string)

// permissions lists for each field, by name, what a client may ask for: what tare's own
// measurements of networks need, and no more. A client whose key may only start this server
// must not get at the machine's files, nor have it run a program of his choice. A field that
// has no permission here is refused; a test wants one for each.
func permissions() map[string]permission {
	return map[string]permission{
		"Image": func(spec bench.Spec, images []string) string {
			return denyUnless(isOwnImage(spec) || slices.Contains(images, spec.Image),
				"image %.100q; --allow-image on that machine "+
					"allows it", spec.Image)
		},
		"Argv": func(spec bench.Spec, _ []string) string {
			allowed := !isOwnImage(spec) || len(spec.Argv) == 0 || onlyAnswers(spec.Argv)
			return denyUnless(allowed, "%.100q: clients may only start tare's network servers", strings.Join(spec.Argv, " "))
		},
		"Env": func(spec bench.Spec, _ []string) string {
			return denyUnless(!isOwnImage(spec) || !slices.ContainsFunc(spec.Env, isForeignOption),
				"environment variables for tare's own image")
		},
		"Dir": func(spec bench.Spec, _ []string) string {
			return denyUnless(!isOwnImage(spec) || spec.Dir == "", "a working directory for tare's own image")
		},
		"Mounts": func(spec bench.Spec, _ []string) string {
			return denyUnless(len(spec.Mounts) == 0, "mounts of host files")
		},
		"Network": func(spec bench.Spec, _ []string) string {
			return denyOther(spec.Network, "network", "none", "host", "bridge", "macvlan", "slirp4netns", "pasta")
		},
		"Reach": func(spec bench.Spec, _ []string) string {
			return denyOther(spec.Reach, "reach", bench.ReachPublished, bench.ReachPeer)
		},
		"Ports": permitPorts,
		"Storage": func(spec bench.Spec, _ []string) string {
			return denyUnless(spec.Storage == "", "storage %.80q", spec.Storage)
		},
		"Data": func(spec bench.Spec, _ []string) string {
			return denyUnless(spec.Data == "", "a data directory of the host")
		},
		"DataName": func(spec bench.Spec, _ []string) string {
			return denyUnless(spec.DataName == "", "data that outlive their container")
		},
		"Member": func(spec bench.Spec, _ []string) string {
			return denyUnless(spec.Member == nil, "a container of a project")
		},
		"Limits":   permitLimits,
		"Security": permitSecurity,
		"Shm": func(spec bench.Spec, _ []string) string {
			return denyUnless(spec.Shm == 0, "a size of /dev/shm")
		},
		// Engines look programs up by these names.
		"Runtime": func(spec bench.Spec, _ []string) string {
			return denyOther(spec.Runtime, "runtime", "runc", "crun", "youki", "runsc", "io.containerd.runc.v2")
		},
		"Snapshotter": func(spec bench.Spec, _ []string) string {
			return denyOther(spec.Snapshotter, "snapshotter", "overlayfs", "native")
		},
	}
}

// permit refuses what a client may not have this machine run.
func permit(spec bench.Spec, images []string) error {
	all := permissions()
	fields := reflect.ValueOf(spec)
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		allowed := all[name]
		switch {
		case allowed == nil && fields.Field(i).IsZero():
		case allowed == nil:
			return forbidden(strings.ToLower(name))
		default:
			if refused := allowed(spec, images); refused != "" {
				return forbidden(refused)
			}
		}
	}
	return nil
}

func forbidden(what string) error {
	return fmt.Errorf("%w: %s (%w)", errForbidden, what, bench.ErrUnsupported)
}

// isOwnImage reports whether a container is to be of tare's own image.
func isOwnImage(spec bench.Spec) bool { return spec.Image == "" || spec.Image == bench.AgentImage }

func denyUnless(allowed bool, format string, args ...any) string {
	if allowed {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// denyOther allows words, and none.
func denyOther(word, what string, allowed ...string) string {
	return denyUnless(word == "" || slices.Contains(allowed, word), "%s %.80q; allowed: %s",
		what, word, strings.Join(allowed, ", "))
}

// firstFreePort is the first port that is not the system's.
const firstFreePort = 1024

// permitPorts keeps clients from the ports that are the system's. The address is the
// one by which the client has come, whatever it asks for.
func permitPorts(spec bench.Spec, _ []string) string {
	for _, p := range spec.Ports {
		if p.Host != 0 && p.Host < firstFreePort {
			return fmt.Sprintf("port %d of the host: use %d or higher", p.Host, firstFreePort)
		}
		if refused := denyOther(p.Protocol, "protocol", "tcp", "udp"); refused != "" {
			return refused
		}
	}
	return ""
}

func permitLimits(spec bench.Spec, _ []string) string {
	l := spec.Limits
	lists := strings.Trim(l.CPUSet, "0123456789-,") == ""
	return denyUnless(l.CPUs >= 0 && l.Memory >= 0 && l.Pids >= 0 && lists, "invalid limits")
}

func permitSecurity(spec bench.Spec, _ []string) string {
	s := spec.Security
	if s.Privileged {
		return "privileged containers"
	}
	return denyOther(s.Seccomp, "seccomp", "unconfined", bench.SeccompDocker)
}

// onlyAnswers reports whether argv is the agent with loads that only answer requests over
// the network.
func onlyAnswers(argv []string) bool {
	if len(argv) < 3 || argv[0] != agent.Path || argv[1] != "load" {
		return false
	}
	name := true
	for _, word := range argv[2:] {
		if name && !slices.Contains(answeringLoads(), word) {
			return false
		}
		if port, ok := strings.CutPrefix(word, "port="); ok && !freePort(port) {
			return false
		}
		name = word == agent.LoadSeparator
	}
	return true
}

// freePort reports whether text is a port that clients may have: in the host's network, a
// server listens there itself.
func freePort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && (port == 0 || port >= firstFreePort)
}

// answeringLoads lists the loads that do nothing but answer: they write no file
// and start nothing, whatever their options.
func answeringLoads() []string { return []string{"net-server"} }

// isForeignOption reports whether KEY=VALUE is not what answering loads are given: the
// token by which they know their client.
func isForeignOption(kv string) bool { return !strings.HasPrefix(kv, "TARE_NET_TOKEN=") }
