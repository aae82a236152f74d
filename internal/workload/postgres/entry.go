package postgres

import (
	"context"
	"fmt"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
)

// What starts the server: the values of option entry.
const (
	entryTare  = "tare"  // tare's launcher, on a copy of the template
	entryImage = "image" // the image's own entry point, which makes a cluster in each trial
)

// entryTime is the time within which a server must answer that an entry point starts: it makes a cluster
// before.
const entryTime = 2 * time.Minute

// checkEntry says why an image's entry point cannot start the server of a cell; empty = it can, or need not.
func checkEntry(t bench.Task) (why string) {
	_, plain := bench.As[bench.DataKeeper](t.Engine)
	switch {
	case t.Params["entry"] != entryImage:
		return ""
	case plain:
		return "entry image: a plain process has no image: use entry=tare for this engine"
	case t.Spec.Reach == bench.ReachSocket:
		return "entry image: while it makes the cluster, an entry point has another server, which would answer on the " +
			"same Unix socket: use another network"
	case t.Params["ssl"] == "yes":
		return "ssl with entry image: the cluster that an image makes has no certificate: use entry=tare"
	case t.Params["cache"] == cold:
		return "cache=cold with entry image: the tables are made in each trial, so they are warm: use entry=tare"
	}
	return ""
}

// entryEnv is what the official image and those in its style are told: where the cluster belongs, and the
// password of its superuser.
func (f *fixture) entryEnv() []string {
	return []string{"PGDATA=" + clusterDir, "POSTGRES_PASSWORD=" + f.template.password}
}

// entryPoint returns what a container of an image runs, with the path of the program.
func entryPoint(ctx context.Context, img *image.Image) ([]string, error) {
	argv, err := img.Argv(bench.Spec{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", bench.ErrUnsupported, err)
	}
	switch name := argv[0]; {
	case path.IsAbs(name):
		return argv, nil
	case strings.Contains(name, "/"):
		argv[0] = path.Join(img.WorkingDir(), name)
		return argv, nil
	}
	rootfs, err := img.Rootfs(ctx)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", img.Ref(), err)
	}
	defer func() { _ = root.Close() }() // nothing was written
	for _, dir := range searchPath(img) {
		if info, err := root.Lstat(path.Join(dir, argv[0])[1:]); err == nil && !info.IsDir() {
			argv[0] = path.Join(dir, argv[0])
			return argv, nil
		}
	}
	return nil, fmt.Errorf("%w: image %s begins with %.100q, which is not in its PATH", bench.ErrUnsupported, img.Ref(),
		argv[0])
}

// searchPath is the PATH of an image; empty if it has none.
func searchPath(img *image.Image) (dirs []string) {
	for _, one := range img.Env() {
		list, ok := strings.CutPrefix(one, "PATH=")
		if !ok {
			continue
		}
		for dir := range strings.SplitSeq(list, ":") {
			if path.IsAbs(dir) {
				dirs = append(dirs, path.Clean(dir))
			}
		}
	}
	return dirs
}

// What a cluster that an image makes takes on the disk, in bytes: without tables, and for each unit of their
// scale.
const (
	emptyCluster = 64 << 20
	eachScale    = 16 << 20
)

// toldVersion is in what "postgres --version" prints.
var toldVersion = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// askVersion asks the server for its version: initdb has other options in some, and an entry point makes no cluster
// that would tell it.
func (b *builder) askVersion(ctx context.Context) error {
	p, err := b.start(ctx, "version", nil, b.program.path, "--version")
	if err != nil {
		return err
	}
	defer b.clock.Cleanup(p.Remove)
	text, err := p.Output(ctx)
	if err != nil {
		return err
	}
	found := toldVersion.FindSubmatch(text)
	if found == nil {
		return fmt.Errorf("%w: %s --version prints %.200q", bench.ErrUnsupported, b.program.path, text)
	}
	b.version, err = versionNumber(string(found[1]))
	return err
}

// versionNumber returns a major version as server_version_num has it.
func versionNumber(major string) (int, error) {
	n, err := strconv.Atoi(major)
	if err != nil || n < 11 {
		return 0, fmt.Errorf("%w: PostgreSQL %.20q: tare needs version 11 or later", bench.ErrUnsupported, major)
	}
	return n * 10_000, nil
}
