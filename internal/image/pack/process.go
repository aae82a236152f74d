package pack

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Process is what a container of an image runs, unless it is told otherwise.
type Process struct {
	Entrypoint []string
	Cmd        []string
	Env        []string // KEY=VALUE
	User       string
	Dir        string
	Ports      []string // on which it listens, such as "80/tcp"; empty = none that is known
}

// process decides what a container runs.
func (p *packer) process() error {
	s := &p.set.Process
	s.Entrypoint = []string{p.set.Program}
	if len(p.recipes) > 0 && p.recipes[0].program == p.set.Program {
		a := p.recipes[0]
		s.Cmd, s.Dir, s.Ports = slices.Clone(a.Cmd), a.Dir, slices.Clone(a.Ports)
		s.Env = slices.Clone(a.Env)
		if len(a.Entrypoint) > 0 {
			s.Entrypoint = a.expand(a.program, a.bin, a.Entrypoint)
		}
	}
	s.Env = append([]string{"PATH=" + p.searchPath()}, s.Env...)
	want := p.request.Process
	if len(want.Entrypoint) > 0 {
		s.Entrypoint, s.Cmd, s.Ports = want.Entrypoint, nil, nil
	}
	if len(want.Ports) > 0 {
		s.Ports = want.Ports
	}
	if len(want.Cmd) > 0 {
		s.Cmd = want.Cmd
	}
	s.Env = append(s.Env, want.Env...)
	if len(p.request.Users) > 0 {
		s.User = p.request.Users[0]
	}
	if want.Dir != "" {
		s.Dir = want.Dir
		return p.workdir(want.Dir)
	}
	return nil
}

// workdir makes the working directory, if it is not there.
func (p *packer) workdir(dir string) error {
	if !path.IsAbs(dir) || path.Clean(dir) != dir {
		return fmt.Errorf("working directory %q: want an absolute path without . and .. in it", dir)
	}
	_, err := p.tree.mkdir(dir)
	return err
}

// searchPath is PATH inside: the directories in which the programs were found,
// and in which they are, before the usual ones.
func (p *packer) searchPath() string {
	usual := strings.Split(SearchPath, ":")
	var dirs []string
	found := []string{path.Dir(p.set.Program)}
	for _, c := range p.closures {
		found = append(found, path.Dir(c.main.path), c.main.origin)
	}
	for _, dir := range found {
		if !slices.Contains(usual, dir) && !slices.Contains(dirs, dir) && !strings.Contains(dir, ":") {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(append(dirs, usual...), ":")
}
