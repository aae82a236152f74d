package compose

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/tare-bench/tare/internal/bench"
)

// generated returns a compose file. It is JSON, which every reader of YAML takes.
func generated(services []service, how bench.Composing) ([]byte, error) {
	type volume struct {
		Type   string `json:"type"`
		Source string `json:"source"`
		Target string `json:"target"`
	}
	type item struct {
		Image      string            `json:"image"`
		Entrypoint []string          `json:"entrypoint"`
		Command    []string          `json:"command"`
		Runtime    string            `json:"runtime,omitempty"`
		Volumes    []volume          `json:"volumes"`
		Ulimits    map[string]uint64 `json:"ulimits,omitempty"`
		DependsOn  []string          `json:"depends_on,omitempty"`
	}
	items := map[string]item{}
	for i, s := range services {
		made := item{
			Image: literal(how.Image), Entrypoint: literals(s.spec.Argv[:1]), Command: literals(s.spec.Argv[1:]),
			Runtime: s.spec.Runtime, Ulimits: how.Ulimits,
		}
		for _, m := range s.spec.Mounts {
			made.Volumes = append(made.Volumes, volume{m.Type, literal(m.Source), literal(m.Target)})
		}
		if i > 0 {
			made.DependsOn = []string{services[i-1].name}
		}
		items[s.name] = made
	}
	return json.MarshalIndent(map[string]any{"services": items}, "", "  ")
}

// literal is a text that compose does not take for one with variables.
func literal(s string) string { return strings.ReplaceAll(s, "$", "$$") }

func literals(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = literal(s)
	}
	return out
}

// maxFile is how much of a compose file is read, in bytes. The YAML lexer's time grows with the square
// of some files' length.
const maxFile = 64 << 10

// A definition is the part of a compose file that decides whether tare can start it beside what runs.
type definition struct {
	Services map[string]struct {
		Image         string `yaml:"image"`
		ContainerName string `yaml:"container_name"`
		PullPolicy    string `yaml:"pull_policy"`
		Profiles      any    `yaml:"profiles"`
		Extends       any    `yaml:"extends"` // the name of a service, or a mapping that may have a file, too
	} `yaml:"services"`
	Include  any                  `yaml:"include"`
	Networks map[string]*resource `yaml:"networks"`
	Volumes  map[string]*resource `yaml:"volumes"`
}

// A resource is a network or a volume.
type resource struct {
	Name     string `yaml:"name"`
	External any    `yaml:"external"` // true or, in old files, a mapping with the name
}

// read reads a file of the user's.
func (p *project) read(ctx context.Context, file string) error {
	p.program.use(p.name, file)
	text, err := readFile(file)
	if err != nil {
		return fmt.Errorf("compose file: %w", err)
	}
	if p.program.name != podmanCompose { // which has no such command before 1.0.6
		if text, err = p.program.config(ctx); err != nil {
			return err
		}
	}
	d, err := parse(text)
	if err != nil {
		return fmt.Errorf("compose file %s: %w", file, err)
	}
	if err := d.check(p.name); err != nil {
		return fmt.Errorf("%w: compose file %s: %w", bench.ErrUnsupported, file, err)
	}
	for _, service := range slices.Sorted(maps.Keys(d.Services)) {
		if s := d.Services[service]; s.Profiles == nil {
			if err := p.present(ctx, service, s.Image); err != nil {
				return err
			}
			p.services = append(p.services, named(service))
		}
	}
	if len(p.services) == 0 {
		return fmt.Errorf("compose file %s: it has no services that start without a profile", file)
	}
	return nil
}

// parse parses a compose file. The YAML library panics on some texts that are no YAML.
func parse(text []byte) (d definition, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("not YAML: %v", p)
		}
	}()
	if err := yaml.Unmarshal(text, &d); err != nil {
		return d, fmt.Errorf("%.500q", yaml.FormatError(err, false, false))
	}
	return d, nil
}

func named(name string) service { return service{name: name} }

// readFile reads a file that somebody else names.
func readFile(name string) (text []byte, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d KiB", name, maxFile>>10)
	}
	return text, err
}

// check refuses what belongs to nobody's project alone: compose would take, and remove at the end, what
// somebody else has under that name. What other files have is not seen, unless the program has put it in.
func (d definition) check(project string) error {
	if d.Include != nil {
		return errors.New("it includes other files, in which tare does not look for fixed names: measure one file that has " +
			"everything")
	}
	for _, name := range slices.Sorted(maps.Keys(d.Services)) {
		extends, _ := d.Services[name].Extends.(map[string]any)
		switch s := d.Services[name]; {
		case extends["file"] != nil:
			return fmt.Errorf("service %s extends one of another file, in which tare does not look for fixed names: measure "+
				"one file that has everything", name)
		case s.ContainerName != "":
			return fmt.Errorf("service %s has the fixed name %.80q, which a container of yours may have: measure a copy of "+
				"the file without container_name", name, s.ContainerName)
		case !slices.Contains([]string{"", "missing", "if_not_present", "never"}, s.PullPolicy):
			return fmt.Errorf("service %s has the pull_policy %.80q, which would have every trial pull or build: measure a copy "+
				"of the file without pull_policy", name, s.PullPolicy)
		case s.Image == "" && s.Profiles == nil:
			return fmt.Errorf("service %s has no image: build it first, and name it with image", name)
		}
	}
	return cmp.Or(checkNames(project, "network", d.Networks), checkNames(project, "volume", d.Volumes))
}

func checkNames(project, kind string, all map[string]*resource) error {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		r := all[key]
		if r == nil || r.Name == "" || r.Name == project+"_"+key || r.External != nil && r.External != false {
			continue
		}
		return fmt.Errorf("%s %s has the fixed name %.80q, which one of yours may have: measure a copy of the file "+
			"without name, or with external", kind, key, r.Name)
	}
	return nil
}

// present checks that the engine has an image, so that no trial fetches it. What has variables is left
// to the program.
func (p *project) present(ctx context.Context, service, image string) error {
	finder, ok := bench.As[bench.ImageFinder](p.engine)
	if !ok || strings.Contains(image, "$") {
		return nil
	}
	if err := finder.FindImage(ctx, image); err != nil {
		return fmt.Errorf("service %s: %w", service, err)
	}
	return nil
}
