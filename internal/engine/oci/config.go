package oci

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/pkg/cap"
	"github.com/moby/sys/user"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/ocispec"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/netdev"
	"github.com/tare-bench/tare/internal/kernel/readback"
	"github.com/tare-bench/tare/internal/kernel/seccomp"
	"github.com/tare-bench/tare/internal/kernel/userns"
)

// defaultPath is for images that set no PATH.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// check reports the parts of spec that this driver does not support.
func (e *Engine) check(h *hostInfo, spec bench.Spec) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s", bench.ErrUnsupported, e.cfg.Name, fmt.Sprintf(format, args...))
	}
	err := cmp.Or(bench.CheckNetwork(spec, "none", "host", "bridge"), netdev.Check(spec), datadir.Check(spec),
		datadir.CheckMounts(spec, "bind", "tmpfs"), seccomp.Check(spec.Security))
	if err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	switch {
	case spec.Runtime != "" && spec.Runtime != h.version.name:
		return refuse("runtime %q: this engine runs only %s: use another engine", spec.Runtime, h.version.name)
	case !slices.Contains([]string{"", "layer", "bind", "tmpfs"}, spec.Storage):
		return refuse("storage %q: a bare runtime has no volumes: use layer, bind or tmpfs", spec.Storage)
	case spec.Snapshotter != "" && spec.Snapshotter != "overlayfs":
		return refuse("snapshotter %q: use overlayfs", spec.Snapshotter)
	case spec.Security.UserNS && spec.Security.Privileged:
		return refuse("a privileged container cannot have a user namespace of its own: use only one of the two")
	case spec.Security.UserNS:
		if err := userns.Traversable(e.cfg.Dir); err != nil {
			return fmt.Errorf("%s: %w", e.cfg.Name, err)
		}
	}
	if what := h.dialect.refuse(spec); what != "" {
		return refuse("%s", what)
	}
	return nil
}

// specification is the config.json for spec in the bundle.
func specification(spec bench.Spec, b *bundle) (*specs.Spec, error) {
	argv, err := b.image.Argv(spec)
	if err != nil {
		return nil, err
	}
	user, err := userOf(b.base, b.image.User())
	if err != nil {
		return nil, err
	}
	dir := spec.Dir
	if dir == "" {
		dir = b.image.WorkingDir()
	}
	if dir == "" {
		dir = "/"
	}
	l := layout{
		root: b.path("rootfs"), cgroup: b.cgroup, dir: dir, user: user,
		mounts: datadir.Mounts(spec, b.data), argv: argv, env: image.MergeEnv([]string{defaultPath}, b.image.Env(), spec.Env),
	}
	_, err = os.Stat("/proc/self/ns/cgroup")
	l.cgroupNS = err == nil
	l.capabilities = capabilityNames(agent.DefaultCapabilities)
	if spec.Security.Privileged {
		status, err := readback.StatusOf(readback.Self)
		if err != nil {
			return nil, err
		}
		l.capabilities = capabilityNames(uint64(status.Bounding))
	}
	return l.specification(spec), nil
}

// A layout is everything that a specification depends on besides the Spec.
type layout struct {
	root, cgroup, dir string
	user              specs.User
	mounts            []bench.Mount
	argv, env         []string
	capabilities      []string
	cgroupNS          bool // the kernel has cgroup namespaces
}

func (l layout) specification(spec bench.Spec) *specs.Spec {
	s := &specs.Spec{
		Version:  ocispec.Version,
		Hostname: "tare",
		Root:     &specs.Root{Path: l.root, Readonly: spec.Security.ReadOnly},
		Process: &specs.Process{
			User: l.user, Args: l.argv, Env: l.env, Cwd: l.dir,
			NoNewPrivileges: spec.Security.NoNewPrivileges,
			Capabilities: &specs.LinuxCapabilities{
				Bounding: l.capabilities, Effective: l.capabilities, Permitted: l.capabilities,
			},
		},
		Mounts: append(systemMounts(spec), ocispec.Mounts(l.mounts)...),
		Linux: &specs.Linux{
			CgroupsPath: l.cgroup,
			Namespaces:  l.namespaces(spec),
			Resources:   resources(spec),
		},
	}
	if spec.Security.UserNS {
		ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: userns.First, Size: userns.Size}}
		s.Linux.UIDMappings, s.Linux.GIDMappings = ids, ids
	}
	if spec.Security.Seccomp == bench.SeccompDocker {
		s.Linux.Seccomp = seccomp.Profile()
	}
	if !spec.Security.Privileged {
		s.Linux.MaskedPaths = maskedPaths()
		s.Linux.ReadonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	}
	return s
}

func (l layout) namespaces(spec bench.Spec) []specs.LinuxNamespace {
	types := []specs.LinuxNamespaceType{specs.PIDNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.MountNamespace}
	if spec.Network != "host" {
		types = append(types, specs.NetworkNamespace)
	}
	if spec.Security.UserNS {
		types = append(types, specs.UserNamespace)
	}
	if l.cgroupNS {
		types = append(types, specs.CgroupNamespace)
	}
	list := make([]specs.LinuxNamespace, len(types))
	for i, t := range types {
		list[i].Type = t
	}
	return list
}

// systemMounts are the mounts that programs expect.
func systemMounts(spec bench.Spec) []specs.Mount {
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{
			Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{
				"nosuid", "strictatime", "mode=755", "size=65536k",
			},
		},
		{
			Destination: "/dev/pts", Type: "devpts", Source: "devpts",
			Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"},
		},
		{
			Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{
				"nosuid", "noexec", "nodev", "mode=1777", "size=" + strconv.FormatInt(cmp.Or(spec.Shm, bench.DefaultShm), 10),
			},
		},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		sys(spec),
	}
}

// sys is a mount of sysfs. The root of a user namespace may not mount a sysfs for the host's
// network, so it gets a bind mount of the host's /sys.
func sys(spec bench.Spec) specs.Mount {
	mode := "ro"
	if spec.Security.Privileged {
		mode = "rw"
	}
	if spec.Security.UserNS && spec.Network == "host" {
		return specs.Mount{
			Destination: "/sys", Type: "bind", Source: "/sys", Options: []string{
				"rbind", "rprivate", "nosuid", "noexec", "nodev", mode,
			},
		}
	}
	return specs.Mount{
		Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", mode},
	}
}

func resources(spec bench.Spec) *specs.LinuxResources {
	r := &specs.LinuxResources{
		// The runtimes allow the usual devices in addition.
		Devices: []specs.LinuxDeviceCgroup{{Allow: spec.Security.Privileged, Access: "rwm"}},
	}
	ocispec.Limit(r, spec.Limits)
	return r
}

// maskedPaths are the paths that unprivileged containers cannot see, as in Docker.
func maskedPaths() []string {
	return []string{
		"/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
	}
}

// capabilityNames returns the names of a set of capabilities, given as in /proc/PID/status. It
// omits capabilities that are newer than this list, because runtimes refuse names that they do not
// know.
func capabilityNames(set uint64) []string {
	held, _ := cap.FromBitmap(set)
	return held
}

// userOf finds the user that an image asks to run as: "", "USER" or "USER:GROUP", each a number or
// a name in the image's own /etc/passwd and /etc/group.
func userOf(base, wanted string) (specs.User, error) {
	if wanted == "" {
		return specs.User{}, nil
	}
	found, err := user.GetExecUser(wanted, nil, text(base, "etc/passwd"), text(base, "etc/group"))
	if err != nil {
		return specs.User{}, fmt.Errorf("user %q, which the image asks for: %w", wanted, err)
	}
	u := specs.User{UID: uint32(found.Uid), GID: uint32(found.Gid)}
	for _, id := range found.Sgids {
		u.AdditionalGids = append(u.AdditionalGids, uint32(id))
	}
	return u, nil
}

// text returns a file of the image; empty if the image does not have it.
func text(base, file string) io.Reader {
	f, err := os.OpenInRoot(base, file) // a link in the image cannot lead out of it
	if err != nil {
		return strings.NewReader("")
	}
	defer func() { _ = f.Close() }() // it was only read
	b, _ := io.ReadAll(io.LimitReader(f, 1<<20))
	return strings.NewReader(string(b))
}
