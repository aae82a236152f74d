package bench

import (
	"context"
	"encoding/hex"
	"net/netip"
	"strings"
)

// The labels by which compose finds its own objects, and this package those of a project. All
// compose programs put them on containers, and the first one on networks and volumes too.
const (
	ProjectLabel = "com.docker.compose.project"
	ServiceLabel = "com.docker.compose.service"
)

// projectPrefix begins the name of a project that a run has made.
const projectPrefix = "tare-"

// ProjectName names a project of a run. nonce has only digits and lower-case letters. Compose puts the
// name on every object that it makes, so those of a dead run are found by it.
func ProjectName(run, nonce string) string { return projectPrefix + run + "-" + nonce }

// ProjectRun returns the run that has made a project of this name; empty if no run has.
func ProjectRun(name string) (run string) {
	rest, ours := strings.CutPrefix(name, projectPrefix)
	end := strings.LastIndexByte(rest, '-')
	if !ours || end < 0 || end == len(rest)-1 || ValidRunID(rest[:end]) != nil {
		return ""
	}
	return rest[:end]
}

// ProjectNetwork is the network that compose makes for a project and its containers join.
func ProjectNetwork(project string) string { return project + "_default" }

// A Membership is the place of a container in a project.
type Membership struct {
	Project string // a name of ProjectName
	Service string // also the name by which other containers of the project find it
}

// A Member is a container of a project, as the engine tells of it.
type Member struct {
	ID      string
	Service string
	Image   string // ID of its image, as the engine names it
	Status  string // in the engine's words, such as "created", "running" or "exited"
	Running bool
	Exit    int              // status of the first process, once it has ended
	Health  string           // "starting", "healthy" or "unhealthy"; empty without a health check
	Ports   []netip.AddrPort // TCP ports of the host under which it is published
	Volumes []string         // those that the engine has made for it alone, without a name of its user's
}

// IsAnonymousVolume reports whether a volume's name is one that docker or podman chose: 64 hexadecimal digits.
func IsAnonymousVolume(name string) bool {
	_, err := hex.DecodeString(name)
	return len(name) == 64 && err == nil
}

type (
	// A Projecter has projects: containers that find one another by name on a network of their
	// own, and that compose makes from a file. Implemented by docker and podman.
	Projecter interface {
		// MakeNetwork makes the network of a project. Containers of a Spec with a Membership of
		// this project join it.
		MakeNetwork(ctx context.Context, project string) error
		// DropNetwork removes it, with one call. It repairs nothing.
		DropNetwork(ctx context.Context, project string) error
		// Members lists the containers of a project, whoever made them, by service. It changes
		// nothing.
		Members(ctx context.Context, project string) ([]Member, error)
		// Printed returns the end of what a member has printed.
		Printed(ctx context.Context, id string) ([]byte, error)
		// RemoveProject removes every container, network and volume of a project of this run,
		// whoever made them. Volumes are those of Members: nothing says whose they are once the
		// containers are gone. It may be called again, and works after the trial's context has ended.
		RemoveProject(ctx context.Context, project string, volumes ...string) error
	}

	// A Composable engine is one in which compose programs of its user make containers.
	// Implemented by docker and podman.
	Composable interface {
		// Composing says how such a program reaches this engine, and what it calls the image of
		// spec, for which Prepare was called.
		Composing(ctx context.Context, spec Spec) (Composing, error)
		// Adopt returns a member of a project as if Create had made it of spec.
		Adopt(ctx context.Context, id string, spec Spec) (Container, error)
	}
)

// Composing is what a compose program must know of an engine.
type Composing struct {
	Programs []string // those that can use this engine, the usual one first
	Env      []string // KEY=VALUE, in place of the user's own
	Image    string   // name in the engine's store
	// Ulimits are the resource limits that Create gives every container, by their names in a compose file, where
	// the engine's own cannot be set; empty = the engine's own.
	Ulimits map[string]uint64
}
