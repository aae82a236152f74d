package containerd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/pkg/identifiers"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/builder"
	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// A buildkit is a buildkitd that builds with this containerd, as the user's buildctl reaches it.
type buildkit struct {
	program   string // path of buildctl
	namespace string // of containerd, in which it keeps images
	says      string // what it is, with all versions
}

// within returns a context for calls of containerd in buildkitd's namespace.
func (k *buildkit) within(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, k.namespace)
}

// findBuildkit finds the buildkitd that the user's buildctl speaks to. The error wraps bench.ErrUnsupported if none
// builds with this containerd.
func (e *Engine) findBuildkit(ctx context.Context, s *server) (*buildkit, error) {
	k := &buildkit{}
	var err error
	if k.program, err = exec.LookPath("buildctl"); err != nil {
		return nil, e.run.Unsupported("build: there is no buildctl command: install BuildKit: %v", err)
	}
	said, err := k.ask(ctx, "--version")
	if err != nil {
		return nil, e.failed("buildctl --version", err)
	}
	version := builder.VersionIn(string(said), "buildkit ")
	if version.Before(0, 13) && !version.Before(0, 1) { // one that somebody built without a version is 0.0.0
		return nil, e.run.Unsupported("build: buildctl %s is too old: install 0.13 or newer", version)
	}
	if said, err = k.ask(ctx, "debug", "workers", "--format", "{{json .}}"); err != nil && ctx.Err() != nil {
		return nil, e.failed("buildctl debug workers", err)
	}
	if err != nil {
		return nil, e.run.Unsupported("build: buildkitd does not answer: start it, or name it with BUILDKIT_HOST: %w", err)
	}
	info, err := s.client.Server(ctx)
	if err != nil {
		return nil, e.failed("ask containerd who it is", bench.Because(ctx, err))
	}
	daemon := ""
	if k.namespace, daemon, err = workerOf(said, info.UUID); err != nil {
		return nil, e.run.Unsupported("build: %w", err)
	}
	k.says = fmt.Sprintf("BuildKit of buildkitd %s, buildctl %s", daemon, version)
	return k, nil
}

// workerOf returns the containerd namespace of the worker that builds use, which is the first one of a list, and its
// version. It fails unless that works with the containerd of that UUID.
func workerOf(list []byte, uuid string) (namespace, version string, err error) {
	const label = "org.mobyproject.buildkit.worker."
	var workers []struct {
		Labels          map[string]string
		BuildkitVersion struct{ Version string }
	}
	if err := json.Unmarshal(list, &workers); err != nil {
		return "", "", fmt.Errorf("buildctl's list of workers cannot be read: %w", err)
	}
	if len(workers) == 0 || workers[0].Labels[label+"containerd.uuid"] != uuid || uuid == "" {
		return "", "", errors.New("buildkitd does not build with this containerd: start it with --oci-worker=false " +
			"--containerd-worker=true")
	}
	namespace = workers[0].Labels[label+"containerd.namespace"]
	version = builder.VersionIn(workers[0].BuildkitVersion.Version, "").String()
	return namespace, version, identifiers.Validate(namespace)
}

// Limits of what buildctl is asked when nothing is timed.
const (
	kitTime = 20 * time.Second
	maxTold = 64 << 20
)

// ask runs buildctl, and returns what it prints.
func (k *buildkit) ask(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, kitTime, errors.New("no answer in time"))
	defer cancel()
	said, err := stdstream.Run(ctx, maxTold, k.program, args...)
	if err != nil {
		return nil, fmt.Errorf("buildctl %s: %w: %.300q", args[0], err, said)
	}
	return said, nil
}

// fileKey is the option of a build that names the directory of its file.
const fileKey = "dockerfilekey"

// historyPrefix begins the ID of what buildkitd remembers of a build, among those of records of its cache.
const historyPrefix = "history/"

// kept lists what buildkitd keeps: records of its cache, and what it remembers of builds, whose description is the
// name of their directory. It leaves out records that are in use, which nobody can remove: those of a step that was
// cut short are so until buildkitd starts again, and are found then.
func (k *buildkit) kept(ctx context.Context) ([]builder.Record, error) {
	said, err := k.ask(ctx, "du", "--format", "{{json .}}")
	if err != nil {
		return nil, err
	}
	var all []struct {
		builder.Record
		InUse bool
	}
	if err := json.Unmarshal(said, &all); err != nil {
		return nil, fmt.Errorf("buildctl's list of the cache: %w", err)
	}
	var records []builder.Record
	for _, r := range all {
		if !r.InUse {
			records = append(records, r.Record)
		}
	}
	if said, err = k.ask(ctx, "debug", "histories", "--format", "{{json .}}"); err != nil {
		return nil, err
	}
	past, err := histories(said)
	return append(records, past...), err
}

// histories reads what buildctl tells of builds, a JSON object for each.
func histories(said []byte) (records []builder.Record, err error) {
	for line := range bytes.Lines(said) {
		var event struct {
			Record struct {
				Ref           string
				FrontendAttrs map[string]string
			}
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("buildctl's list of builds: %w", err)
		}
		r := event.Record
		records = append(records, builder.Record{ID: historyPrefix + r.Ref, Description: r.FrontendAttrs[fileKey]})
	}
	return records, nil
}

// remove removes what is ours of what buildkitd keeps, each by its ID, and what was made from it. It reports whether
// there was any. Buildkitd keeps what it still uses.
func (k *buildkit) remove(ctx context.Context, ours func(builder.Record) bool) (some bool, err error) {
	all, err := k.kept(ctx)
	if err != nil {
		return false, err
	}
	own := builder.OwnRecords(all, ours)
	for part := range slices.Chunk(own, 500) { // a command line has a limit
		prune := []string{"prune", "--all", "--format", "{{.ID}}"}
		for _, id := range part {
			if ref, ok := strings.CutPrefix(id, historyPrefix); ok {
				// It may have gone meanwhile, or be of a build that was cut short.
				_, err := k.ask(ctx, "debug", "ctl", "--delete", ref)
				if err != nil && !strings.Contains(err.Error(), "not found") {
					return some, err
				}
				some = some || err == nil
				continue
			}
			prune = append(prune, "--filter", "id=="+id)
		}
		if prune[len(prune)-2] != "--filter" {
			continue // without a filter it would remove everything
		}
		done, err := k.ask(ctx, prune...)
		if err != nil {
			return some, err
		}
		some = some || len(bytes.TrimSpace(done)) > 0
	}
	return some, nil
}
