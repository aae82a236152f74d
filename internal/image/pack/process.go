package pack

import (
	"path"
	"slices"
	"strings"
)

// A Process is the default process of an image's containers.
type Process struct {
	Entrypoint []string
	Cmd        []string
	Env        []string // KEY=VALUE
	Dir        string   // empty = /
	Ports      []string // on which it listens, such as "80/tcp"; empty = unknown
}

// process decides what a container runs.
func (p *packer) process() {
	s := &p.set.Process
	s.Entrypoint = []string{p.set.Program}
	s.Env = []string{"PATH=" + p.searchPath()}
	if len(p.recipes) == 0 || p.recipes[0].program != p.set.Program {
		return
	}

	a := p.recipes[0]
	s.Cmd, s.Dir, s.Ports = a.Cmd, a.Dir, a.Ports
	s.Env = append(s.Env, a.Env...)
	if len(a.Entrypoint) > 0 {
		s.Entrypoint = a.expand(a.program, a.bin, a.Entrypoint)
	}
}

// searchPath is PATH inside: the directories in which the programs were found, and their real
// directories, before the usual ones.
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
