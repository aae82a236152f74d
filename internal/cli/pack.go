package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/pack"
)

// packOptions are the flags of 'tare pack'.
type packOptions struct {
	output     string
	force      bool
	load       []string
	tag        string
	recipe     string
	files      []string
	users      []string
	entrypoint string
	cmd        string
	env        []string
	ports      []string
	dir        string
}

func (a *invocation) packCommand() *cobra.Command {
	var o packOptions
	cmd := &cobra.Command{
		Use:   "pack PROGRAM...",
		Short: "Make an image of programs of this machine, with exactly what they need",
		Long: `Pack makes an image of programs that are installed here: their dynamic loader,
their libraries, and what they are known to open. It says what it took, from which
package, and why. The same files give the same image, to the byte.

PROGRAM is a name that is looked for in PATH, /usr/sbin and /sbin, or an absolute
path. A container runs the first one. What a program needs beside libraries, and how
it is run, is in a recipe, whose name does as PROGRAM too. There are recipes for
` + strings.Join(pack.RecipeNames(), ", ") + `.
--image host:PROGRAM packs by the same rules.`,
		Example: `  tare pack nginx -o nginx.tar
  tare pack postgres --load docker,podman
  tare pack ./server --file ./static:/srv --user www-data -o oci:image`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.pack(cmd.Context(), o, args) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "`file` to write, for --image tar:FILE and 'docker load', .tar.gz and .tgz with gzip; oci:DIR for an OCI layout; - for stdout")
	f.BoolVar(&o.force, "force", false, "replace the file that is there")
	f.StringArrayVar(&o.load, "load", nil, "`engines` to load it into, with commas: "+strings.Join(loaders(), ", "))
	f.StringVar(&o.tag, "tag", "", "`name` of the image (default tare.local/PROGRAM:latest)")
	f.StringVar(&o.recipe, "recipe", "", "`name` of the recipe for the first program; none for no recipe at all (default: by the programs' names)")
	f.StringArrayVar(&o.files, "file", nil, "one more file or directory: `SRC[:DEST]`; libraries of an object at its own place come along")
	f.StringArrayVar(&o.users, "user", nil, "a user of this machine, by `name`; a container runs as the first")
	f.StringVar(&o.entrypoint, "entrypoint", "", "what a container runs: `words`, or a JSON array of them")
	f.StringVar(&o.cmd, "cmd", "", "its arguments, unless others are given: `words`, or a JSON array of them")
	f.StringArrayVar(&o.env, "env", nil, "a variable of the image: `KEY=VALUE`")
	f.StringArrayVar(&o.ports, "expose", nil, "a port on which it listens, instead of those of the recipe: `PORT[/PROTOCOL]`, by default tcp")
	f.StringVar(&o.dir, "workdir", "", "its working `directory`, made if it is not there")
	completeFlag(cmd, "recipe", completeFixed(append(pack.RecipeNames(), pack.NoRecipe)...))
	completeFlag(cmd, "load", completeList(loaders()...))
	return cmd
}

func (a *invocation) pack(ctx context.Context, o packOptions, programs []string) error {
	request, err := o.request(programs)
	if err != nil {
		return err
	}
	tag, err := o.name(request.Programs[0])
	if err != nil {
		return err
	}
	to, err := parseTarget(o.output, o.force)
	if err != nil {
		return err
	}
	engines, err := toLoad(o.load)
	if err != nil {
		return err
	}
	work, remove, err := to.workshop()
	if err != nil {
		return err
	}
	defer remove()
	img, err := image.NewLibrary(work).Pack(ctx, request)
	if err != nil {
		return packError(err, to)
	}
	result, err := describe(ctx, img, tag)
	if err != nil {
		return err
	}
	if err := to.write(ctx, a, img, tag); err != nil {
		return err
	}
	result.Written = to.reference()
	result.Loaded, err = a.loadInto(ctx, engines, img, tag)
	return errors.Join(a.printPacked(result, to.kind == toStdout), err)
}

// packError says that it is the output's file system that has no room, for the layer is
// made beside it, or that what was named cannot be packed.
func packError(err error, to *target) error {
	if errors.Is(err, syscall.ENOSPC) {
		return &outputError{fmt.Errorf("make the layer in %s: %w", to.work, err)}
	}
	if errors.Is(err, bench.ErrUnsupported) {
		return mistyped(err, "")
	}
	return err
}

// request reads the flags.
func (o packOptions) request(programs []string) (r pack.Request, err error) {
	r = pack.Request{Recipe: o.recipe, Users: o.users, Scripts: true}
	if len(programs) == 0 && o.recipe != "" {
		programs = pack.ProgramsOf(o.recipe)
	}
	if len(programs) == 0 {
		return r, &usageError{errors.New("no program to pack"), "name one that is installed here: tare pack nginx -o nginx.tar"}
	}
	for _, p := range programs {
		if strings.Contains(p, "/") {
			if p, err = filepath.Abs(p); err != nil {
				return r, err
			}
		}
		r.Programs = append(r.Programs, p)
	}
	for _, f := range o.files {
		file, err := parseFile(f)
		if err != nil {
			return r, err
		}
		r.Files = append(r.Files, file)
	}
	r.Process, err = o.process()
	return r, err
}

// process reads the flags that say what a container runs.
func (o packOptions) process() (p pack.Process, err error) {
	p = pack.Process{Env: o.env, Dir: o.dir}
	for _, kv := range o.env {
		if key, _, ok := strings.Cut(kv, "="); !ok || key == "" {
			return p, &usageError{fmt.Errorf("--env %q", kv), "write KEY=VALUE"}
		}
	}
	for _, text := range o.ports {
		port, err := parsePort(text)
		if err != nil {
			return p, err
		}
		p.Ports = append(p.Ports, port)
	}
	var err1, err2 error
	p.Entrypoint, err1 = words("--entrypoint", o.entrypoint)
	p.Cmd, err2 = words("--cmd", o.cmd)
	return p, errors.Join(err1, err2)
}

// parsePort reads PORT[/PROTOCOL], and returns it as an image's configuration has it.
func parsePort(text string) (string, error) {
	number, protocol, ok := strings.Cut(text, "/")
	if !ok {
		protocol = "tcp"
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil || port == 0 || !slices.Contains([]string{"tcp", "udp", "sctp"}, protocol) {
		return "", &usageError{fmt.Errorf("--expose %q", text), "write PORT or PORT/PROTOCOL: 1 to 65535, and tcp, udp or sctp"}
	}
	return fmt.Sprintf("%d/%s", port, protocol), nil
}

// parseFile reads SRC[:DEST]. DEST begins with a slash, and ends with one if SRC
// goes into that directory.
func parseFile(text string) (pack.File, error) {
	source, dest := text, ""
	if i := strings.LastIndex(text, ":/"); i >= 0 {
		source, dest = text[:i], text[i+1:]
	}
	if source == "" {
		return pack.File{}, &usageError{fmt.Errorf("--file %q", text), "write SRC, or SRC:/DEST"}
	}
	source, err := filepath.Abs(source)
	if err != nil {
		return pack.File{}, err
	}
	if strings.HasSuffix(dest, "/") {
		dest += path.Base(source)
	}
	return pack.File{Source: source, Dest: dest}, nil
}

// words reads the words of a command: a JSON array, or words with blanks between.
func words(flag, text string) (out []string, err error) {
	if !strings.HasPrefix(text, "[") {
		return strings.Fields(text), nil
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, &usageError{fmt.Errorf("%s %q: %w", flag, text, err), `a JSON array is like ["/usr/sbin/nginx", "-g", "daemon off;"]`}
	}
	return out, nil
}

// strange is what a repository's name does not have.
var strange = regexp.MustCompile(`[^a-z0-9]+`)

// name is the full name of the image.
func (o packOptions) name(program string) (string, error) {
	tag := o.tag
	if tag == "" {
		tag = "tare.local/" + strings.Trim(strange.ReplaceAllString(strings.ToLower(path.Base(program)), "-"), "-")
	}
	full, err := image.FullName(tag)
	if err != nil {
		return "", &usageError{err, "--tag NAME:TAG, such as tare.local/nginx:1"}
	}
	return full, nil
}

// loaders are the drivers of engines with a store of images that users name.
func loaders() []string { return []string{"docker", "podman", "containerd"} }

// toLoad are the engines to load an image into.
func toLoad(flags []string) ([]app.Instance, error) {
	chosen, declared, err := parseEngines(flags)
	if err != nil {
		return nil, err
	}
	all := app.WithDeclared(app.Builtin(), declared)
	var out []app.Instance
	for _, name := range chosen {
		i := slices.IndexFunc(all, func(e app.Instance) bool { return e.Name == name })
		if i < 0 {
			all = slices.DeleteFunc(all, func(e app.Instance) bool { return !slices.Contains(loaders(), e.Driver) })
			return nil, &usageError{fmt.Errorf("--load: no engine %q", name), "one can load into " + strings.Join(app.Names(all), ", ")}
		}
		out = append(out, all[i])
	}
	return out, nil
}
