package podman

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/builder"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// BuildTool implements bench.ImageBuilder.
func (e *Engine) BuildTool(ctx context.Context, which string) (string, error) {
	if which != "" {
		return "", e.unsupported("builder %s: podman has one builder of its own: use builder=auto", which)
	}
	if known := e.buildTool.Load(); known != nil {
		return *known, nil
	}
	c, err := e.client(ctx, "")
	if err != nil {
		return "", err
	}
	program, err := exec.LookPath("podman")
	if err != nil {
		return "", e.unsupported("build: there is no podman command: install podman, or podman-remote: %v", err)
	}
	said, err := e.ask(ctx, program, "--version")
	if err != nil {
		return "", err
	}
	tool := "podman build " + versionOf(string(said))
	if e.host() != "" {
		tool += ", through its service " + c.Version.Version
	}
	e.buildTool.Store(&tool)
	return tool, nil
}

// builtName is the name of every image that the run builds.
func (e *Engine) builtName() string { return e.run.ImageName("build") }

// Build implements bench.ImageBuilder with `podman build`, which builds in its own process, or in the
// service that the user names.
func (e *Engine) Build(ctx context.Context, b bench.Build, now func() time.Duration) ([]bench.BuildStep, error) {
	c, err := e.client(ctx, "")
	if err != nil {
		return nil, err
	}
	argv, env := []string{"podman"}, os.Environ()
	if e.host() != "" {
		argv = append(argv, "--remote", "--url", e.host())
	} else {
		space, err := e.data.Take(c.buildSpace())
		if err != nil {
			return nil, err
		}
		env = append(env, temporary+"="+space.At())
	}
	argv = append(argv, "build", "--tag", e.builtName(), "--file", b.File)
	if !b.Cached {
		argv = append(argv, "--no-cache")
	}
	for _, l := range c.rlimits {
		argv = append(argv, "--ulimit", fmt.Sprintf("%s=%d:%d", l.Type, l.Soft, l.Hard))
	}
	if b.Base != "" {
		base, err := e.images.Load(ctx, c, b.Base)
		if err != nil {
			return nil, err
		}
		argv = append(argv, "--build-arg", bench.BuildBase+"="+base.Name)
	}
	e.images.Send(e.builtName()) // Close removes it
	// Podman ends its step only if it is asked to, and with it its own child: both get the signal.
	command := builder.Command{
		Argv: append(argv, b.Context), Env: env, Format: builder.Podman, Stop: syscall.SIGTERM,
	}
	steps, err := command.Run(ctx, now)
	e.buildCut.Store(err != nil)
	return steps, c.failed("podman build", err)
}

// A builtImage is the part of Podman's answer about an image that tells a build.
type builtImage struct {
	ID      string `json:"Id"`
	Size    int64
	Labels  map[string]string
	Created any // seconds in a list
}

// Built implements bench.ImageBuilder.
func (e *Engine) Built(ctx context.Context, _ bench.Build) (bench.BuiltImage, error) {
	c, err := e.client(ctx, "")
	if err != nil {
		return bench.BuiltImage{}, err
	}
	var found builtImage
	if err := c.get(ctx, imagePath(e.builtName())+"/json", &found); err != nil {
		return bench.BuiltImage{}, c.failed("inspect the image that was built", err)
	}
	return bench.BuiltImage{ID: found.ID, Label: found.Labels[bench.BuildLabel], Size: found.Size}, nil
}

// RemoveBuild implements bench.ImageBuilder.
func (e *Engine) RemoveBuild(ctx context.Context, b bench.Build) error {
	c, err := e.client(ctx, "")
	if err != nil {
		return err
	}
	space, err := e.data.Reserve(c.buildSpace())
	if err != nil {
		return err
	}
	return builder.RemoveAll(ctx, e.buildCut.Load(), func() (bool, error) {
		some, err := c.removeBuilt(ctx, func(label string) bool { return bench.IsMarked(label, b.Mark) }, e.cfg.Run)
		if err != nil {
			return some, err
		}
		bundles, err := c.removeBundles(ctx, space.At())
		return some || bundles, err
	})
}

// builtImages lists the images whose label is that of a build.
func (c *client) builtImages(ctx context.Context) ([]builtImage, error) {
	query := url.Values{"all": {"true"}, "filters": {`{"label":["` + bench.BuildLabel + `"]}`}}
	all, err := survey[[]builtImage](ctx, c, "/images/json?"+query.Encode())
	return all, c.failed("list images", err)
}

// removeBuilt removes the images whose label is ours, and the working containers of builds of that run,
// and reports whether there were any. An image goes after those that were made of it.
func (c *client) removeBuilt(ctx context.Context, ours func(label string) bool, run string) (some bool, err error) {
	if err := c.removeHalves(ctx, ours); err != nil {
		return false, err
	}
	working, err := c.workingContainers(ctx)
	if err != nil {
		return false, err
	}
	for _, w := range working {
		if w.run != run {
			continue
		}
		some = true
		if err := c.removeWorking(ctx, w.ID); err != nil {
			return some, err
		}
	}
	images, err := c.builtImages(ctx)
	if err != nil {
		return some, err
	}
	remaining := builder.Remaining{}
	for _, i := range images {
		if ours(i.Labels[bench.BuildLabel]) {
			some = true
			created, _ := i.Created.(float64) // without it, what fails is repeated
			remaining.Add(i.ID, int64(created))
		}
	}
	return some, remaining.Remove(func(id string) error {
		return c.failed("remove image "+id, c.remove(ctx, imagePath(id)+"?force=true"))
	})
}

// removeHalves removes the images whose label is ours and that Podman was storing when it was ended. Until they are gone,
// Podman 4.3 lists no images at all, to nobody.
func (c *client) removeHalves(ctx context.Context, ours func(label string) bool) error {
	last := ""
	for {
		_, err := c.builtImages(ctx)
		id, label := c.halfImage(err)
		if id == last || !ours(label) {
			return nil // whoever lists images next is told what is wrong
		}
		if err := c.failed("remove image "+id, c.remove(ctx, imagePath(id)+"?force=true")); err != nil {
			return err
		}
		last = id
	}
}

// halfImage returns the ID of the image without a manifest for which Podman could not list images, and the label of the
// build that made it, as its configuration in Podman's storage has it; empty if there is none.
func (c *client) halfImage(listing error) (id, label string) {
	e, ok := errors.AsType[*apiError](listing)
	if !ok {
		return "", ""
	}
	m := noManifest.FindStringSubmatch(e.Message)
	if m == nil {
		return "", ""
	}
	digest := base64.StdEncoding.EncodeToString([]byte("sha256:" + m[1]))
	file, err := os.Open(filepath.Join(c.Store.GraphRoot, c.Store.Driver+"-images", m[1], "="+digest))
	if err != nil {
		return m[1], ""
	}
	defer func() { _ = file.Close() }() // it was only read
	var image struct {
		Config struct{ Labels map[string]string }
	}
	if json.NewDecoder(io.LimitReader(file, longestState)).Decode(&image) != nil {
		return m[1], ""
	}
	return m[1], image.Config.Labels[bench.BuildLabel]
}

var noManifest = regexp.MustCompile(`locating item named "manifest" for image with ID "([0-9a-f]{64})"`)

// A workingContainer is one in which `podman build` makes a layer. It stays if the command is killed.
type workingContainer struct {
	ID      string `json:"Id"`
	ImageID string
	State   string
	run     string // that made it, by its image; empty if that is not known
}

// workingContainers lists the containers that only Podman's storage knows: the working containers of all builds, and
// those that Podman could not finish making, as on a full disk.
func (c *client) workingContainers(ctx context.Context) ([]workingContainer, error) {
	all, err := c.allContainers(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(w workingContainer) bool { return w.State != "storage" })
	if len(all) == 0 {
		return nil, nil
	}
	images, err := c.builtImages(ctx)
	if err != nil {
		return nil, err
	}
	runs := map[string]string{}
	for _, i := range images {
		runs[i.ID] = bench.MarkedBy(i.Labels[bench.BuildLabel])
	}
	named, err := c.runsOfImages(ctx)
	if err != nil {
		return nil, err
	}
	for i, w := range all {
		base, err := c.baseOf(w.ID)
		switch {
		case w.run != "":
		case runs[w.ImageID] != "":
			all[i].run = runs[w.ImageID]
		case err == nil:
			all[i].run = owned.RunOf(base)
		default: // it never was a build's, or the disk had no room for that
			all[i].run = named[w.ImageID]
		}
	}
	return all, nil
}

// runsOfImages returns the run to which all names of an image belong, by the image's ID.
func (c *client) runsOfImages(ctx context.Context) (map[string]string, error) {
	images, err := survey[[]imageInspection](ctx, c, "/images/json")
	if err != nil {
		return nil, c.failed("list images", err)
	}
	runs := map[string]string{}
	for _, i := range images {
		for n, tag := range i.RepoTags {
			if run := owned.RunOf(tag); n == 0 || run == runs[i.ID] {
				runs[i.ID] = run
			} else {
				delete(runs, i.ID)
				break
			}
		}
	}
	return runs, nil
}

// longestState is how many bytes of the state of a working container are read.
const longestState = 4 << 20

// baseOf is the name by which the build of a working container asked for its image: the argument that Build gives,
// in the file in which Podman's library keeps the state of a build; an error if that cannot be read. The image's name in
// that file, as in lists, is any that the image has, which can be that of another run.
func (c *client) baseOf(id string) (string, error) {
	if !isImageID(id) { // it becomes a part of a path
		return "", nil
	}
	file, err := os.Open(filepath.Join(c.Store.GraphRoot, c.Store.Driver+"-containers", id, "userdata", "buildah.json"))
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // it was only read
	var state struct{ Args map[string]string }
	err = json.NewDecoder(io.LimitReader(file, longestState)).Decode(&state)
	return state.Args[bench.BuildBase], err
}

// allContainers lists all containers, with those of builds. While Podman cannot list them, see withoutImage, it lists
// those of the reason.
func (c *client) allContainers(ctx context.Context) ([]workingContainer, error) {
	all, err := survey[[]workingContainer](ctx, c, "/containers/json?all=true&external=true")
	if left := c.withoutImage(err); len(left) > 0 {
		return left, nil // what else there is, can be told when they have gone
	}
	return all, c.failed("list containers", err)
}

// withoutImage returns what runs have left in Podman's storage of an image that is gone, if that is why Podman could
// not list containers. A full disk can leave them. Until they are gone, Podman 4.3 lists those of its storage to nobody.
func (c *client) withoutImage(listing error) (left []workingContainer) {
	e, ok := errors.AsType[*apiError](listing)
	if !ok {
		return nil
	}
	m := imageNotKnown.FindStringSubmatch(e.Message)
	if m == nil {
		return nil
	}
	file, err := os.Open(filepath.Join(c.Store.GraphRoot, c.Store.Driver+"-containers", "containers.json"))
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }() // it was only read
	var stored []struct{ ID, Image, Metadata string }
	if json.NewDecoder(io.LimitReader(file, longestState)).Decode(&stored) != nil {
		return nil
	}
	for _, s := range stored {
		var of struct {
			Image string `json:"image-name"`
		}
		if s.Image != m[1] || json.Unmarshal([]byte(s.Metadata), &of) != nil || !isImageID(s.ID) {
			continue
		}
		if run := owned.RunOf(of.Image); run != "" {
			left = append(left, workingContainer{ID: s.ID, ImageID: s.Image, State: "storage", run: run})
		}
	}
	return left
}

var imageNotKnown = regexp.MustCompile(`^([0-9a-f]{64}): image not known`)

// isImageID reports whether this is an ID as images and containers have it. A leftover image of a build's step is
// known by it.
func isImageID(id string) bool {
	raw, err := hex.DecodeString(id)
	return err == nil && len(raw) == sha256.Size
}

// isOfBuild reports whether a build has left it.
func (c *client) isOfBuild(ctx context.Context, l bench.Leftover) (bool, error) {
	if l.Kind != owned.KindContainer {
		return l.Kind == owned.KindImage && isImageID(l.ID), nil
	}
	working, err := c.workingContainers(ctx)
	return slices.ContainsFunc(working, func(w workingContainer) bool { return w.ID == l.ID }), err
}

// removeWorking removes a working container. A process of a step outlives a podman that was killed.
func (c *client) removeWorking(ctx context.Context, id string) error {
	if err := killInside(ctx, id); err != nil {
		return c.failed("end the processes of working container "+id, err)
	}
	// Beside other work of Podman's, a removal that reports success may have done nothing.
	const tries, pause = 20, 100 * time.Millisecond
	for range tries {
		if err := c.remove(ctx, "/containers/"+id+"?force=true"); err != nil {
			return c.failed("remove working container "+id, err)
		}
		left, err := c.allContainers(ctx)
		if err != nil || !slices.ContainsFunc(left, func(w workingContainer) bool { return w.ID == id }) {
			return err
		}
		if err := bench.Sleep(ctx, pause); err != nil {
			return err
		}
	}
	return c.failed("remove working container "+id, errors.New("it is still there"))
}

// killInside kills the processes in a working container. Podman writes its ID into a file there.
func killInside(ctx context.Context, id string) error {
	all, err := proc.All("/")
	if err != nil {
		return err
	}
	for _, p := range all {
		if !isInside(p.PID, id) {
			continue
		}
		err = errors.Join(err, owned.KillProcess(ctx, owned.ProcessID(p), func(pid int) (proc.Process, bool) {
			now, err := proc.Find("/", pid)
			return now, err == nil && isInside(pid, id)
		}))
	}
	return err
}

// isInside reports whether a process runs in a container that Podman's library has made with that ID.
func isInside(pid int, id string) bool {
	root, err := os.OpenRoot(filepath.Join("/proc", strconv.Itoa(pid), "root"))
	if err != nil {
		return false
	}
	defer func() { _ = root.Close() }() // nothing was written
	f, err := root.OpenFile("run/.containerenv", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	return err == nil && slices.Contains(strings.Split(string(text), "\n"), fmt.Sprintf("id=%q", id))
}

var _ bench.ImageBuilder = (*Engine)(nil)
