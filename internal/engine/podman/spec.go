package podman

import (
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/ocispec"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/kernel/userns"
)

// A request is the part of Podman's SpecGenerator that tare uses.
type request struct {
	Name            string                `json:"name"`
	Image           string                `json:"image"`
	Entrypoint      []string              `json:"entrypoint,omitempty"`
	Command         []string              `json:"command,omitempty"`
	Env             map[string]string     `json:"env,omitempty"`
	WorkDir         string                `json:"work_dir,omitempty"`
	Labels          map[string]string     `json:"labels"`
	Annotations     map[string]string     `json:"annotations,omitempty"`
	Network         namespace             `json:"netns"`
	Networks        map[string]any        `json:"networks,omitempty"` // by name; for mode bridge, none = Podman's own
	Ports           []port                `json:"portmappings,omitempty"`
	UserNS          *namespace            `json:"userns,omitempty"`
	IDMappings      *idMappings           `json:"idmappings,omitempty"`
	Mounts          []specs.Mount         `json:"mounts,omitempty"`
	Volumes         []volume              `json:"volumes,omitempty"`
	Privileged      bool                  `json:"privileged,omitempty"`
	ReadOnly        bool                  `json:"read_only_filesystem,omitempty"`
	NoNewPrivileges bool                  `json:"no_new_privileges,omitempty"`
	Seccomp         string                `json:"seccomp_profile_path,omitempty"`
	Resources       *specs.LinuxResources `json:"resource_limits,omitempty"`
	Rlimits         []specs.POSIXRlimit   `json:"r_limits,omitempty"`
	Shm             int64                 `json:"shm_size,omitempty"`
}

type namespace struct {
	Mode string `json:"nsmode"`
}

// idMappings map the users of a user namespace to users of the host.
type idMappings struct {
	UIDMap []idMapping `json:"UIDMap"`
	GIDMap []idMapping `json:"GIDMap"`
}

type idMapping struct {
	Inside  int `json:"container_id"`
	Outside int `json:"host_id"`
	Size    int `json:"size"`
}

type port struct {
	Container uint16 `json:"container_port"`
	Host      uint16 `json:"host_port,omitempty"`
	HostIP    string `json:"host_ip"`
	Protocol  string `json:"protocol"`
}

// A volume without a name is the container's own: Podman makes it, and removes
// it with the container.
type volume struct {
	Target string `json:"Dest"`
}

// annotationSeccomp is the annotation that Podman's inspect shows as the seccomp profile. Podman's
// command line sets it as well.
const annotationSeccomp = "io.podman.annotations.seccomp"

// requestOf translates a Spec.
func (e *Engine) requestOf(c *client, spec bench.Spec, l owned.Loaded, data *datadir.Dir, name string) request {
	r := request{
		Name:            name,
		Image:           l.Name,
		Env:             environment(spec.Env),
		WorkDir:         spec.Dir,
		Labels:          map[string]string{owned.Label: e.cfg.Run},
		Network:         namespace{"none"},
		Privileged:      spec.Security.Privileged,
		ReadOnly:        spec.Security.ReadOnly,
		NoNewPrivileges: spec.Security.NoNewPrivileges,
		Seccomp:         spec.Security.Seccomp,
		Resources:       resourcesOf(spec.Limits),
		Rlimits:         c.rlimits,
		Shm:             spec.Shm,
	}
	if len(spec.Argv) > 0 {
		r.Entrypoint, r.Command = spec.Argv[:1], spec.Argv[1:]
	}
	if spec.Network != "" {
		r.Network.Mode = spec.Network // except for macvlan, see connect
	}
	if spec.Security.UserNS && !c.Host.Security.Rootless { // an ordinary user's container always has one
		ids := []idMapping{{0, userns.First, userns.Size}}
		r.UserNS, r.IDMappings = &namespace{Mode: "private"}, &idMappings{ids, ids}
	}
	if r.Seccomp == bench.SeccompDocker {
		r.Seccomp = e.seccompFile()
	}
	if r.Seccomp != "" {
		r.Annotations = map[string]string{annotationSeccomp: r.Seccomp}
	}
	if spec.Storage == "volume" {
		r.Volumes = []volume{{bench.DataDir}}
	}
	for _, m := range datadir.Mounts(spec, data) {
		r.Mounts = append(r.Mounts, mountOf(m))
	}
	if spec.Reach == bench.ReachPublished {
		r.Ports = portsOf(spec.Ports)
	}
	return r
}

func environment(env []string) map[string]string {
	m := map[string]string{}
	for _, kv := range env {
		key, value, _ := strings.Cut(kv, "=")
		m[key] = value
	}
	return m
}

func resourcesOf(l bench.Limits) *specs.LinuxResources {
	if l == (bench.Limits{}) {
		return nil
	}
	r := &specs.LinuxResources{}
	ocispec.Limit(r, l)
	if r.Memory != nil {
		// Without this value Podman would limit swap to the same amount. It refuses -1, which
		// elsewhere means no limit. This value is more than any machine has.
		swap := int64(1 << 62)
		r.Memory.Swap = &swap
	}
	return r
}

func mountOf(m bench.Mount) specs.Mount {
	to := specs.Mount{Type: m.Type, Source: m.Source, Destination: m.Target}
	if m.Type == "tmpfs" {
		to.Source = "tmpfs"
		if m.Size > 0 {
			to.Options = append(to.Options, "size="+strconv.FormatInt(m.Size, 10))
		}
	} else {
		to.Options = append(to.Options, "rbind")
	}
	if m.ReadOnly {
		to.Options = append(to.Options, "ro")
	}
	return to
}

// portsOf publishes ports of the container on the host.
func portsOf(ports []bench.Port) []port {
	var all []port
	for _, p := range ports {
		all = append(all, port{Container: p.Container, Host: p.Host, HostIP: p.OnHost().String(), Protocol: p.Protocol})
	}
	return all
}
