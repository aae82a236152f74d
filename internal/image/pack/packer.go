package pack

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// A packer makes one Set.
type packer struct {
	tree     *tree
	recipe   func(program string) *Recipe // nil for a program without one
	closures []*closure                   // of programs, in the order in which they were requested
	recipes  []*appliedRecipe
	users    []User
	set      Set
}

// An appliedRecipe is a recipe applied to a packed program.
type appliedRecipe struct {
	*Recipe
	closure *closure
	program string // the file as it was found
	bin     string // its real directory
}

// Pack returns programs with everything that they need: names or absolute paths,
// see Find. A container runs the first. Errors wrap bench.ErrUnsupported if a program cannot be
// packed: it is missing, a script, for another architecture, or lacks a library.
func (h Host) Pack(programs ...string) (*Set, error) { return h.pack(recipeOf, programs) }

func (h Host) pack(recipe func(string) *Recipe, programs []string) (*Set, error) {
	p := &packer{tree: newTree(h), recipe: recipe}
	if err := p.programs(programs); err != nil {
		return nil, err
	}
	if err := p.applyRecipes(); err != nil {
		return nil, err
	}
	p.base()
	if err := p.make(); err != nil {
		return nil, err
	}
	p.process()

	for _, name := range slices.Sorted(maps.Keys(p.tree.entries)) {
		p.set.Entries = append(p.set.Entries, p.tree.entries[name])
	}
	return &p.set, p.tree.check()
}

// programs adds the requested programs, and those that their recipes require.
func (p *packer) programs(names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("%w: no program given", bench.ErrUnsupported)
	}
	for i, name := range names {
		recipe := cmp.Or(p.recipe(name), &Recipe{})
		file, err := recipe.find(p.tree, name)
		if err != nil {
			return err
		}
		c, err := p.program(file, "")
		if err != nil {
			return err
		}
		if i == 0 {
			p.set.Program = file
		}
		if recipe.Name == "" {
			continue
		}
		a := &appliedRecipe{recipe, c, file, c.main.origin}
		p.recipes = append(p.recipes, a)
		if err := p.companions(a); err != nil {
			return err
		}
	}
	return nil
}

// program adds a program.
func (p *packer) program(file, wanted string) (*closure, error) {
	c := newClosure(p.tree)
	c.neededBy = wanted
	if err := c.program(file); err != nil {
		return nil, err
	}
	p.closures = append(p.closures, c)
	p.set.SetID = p.set.SetID || c.setID
	return c, c.hints()
}

// companions adds the programs that a recipe requires: from the program's own directory, or
// otherwise as Find finds them.
func (p *packer) companions(a *appliedRecipe) error {
	for _, name := range a.With {
		file, err := p.companion(a, name)
		if err == nil {
			_, err = p.program(file, a.program)
		}
		if err != nil {
			return fmt.Errorf("%s needs the program %s: %w", a.program, name, err)
		}
	}
	for _, name := range a.Also {
		file, err := p.companion(a, name)
		if err != nil || p.tree.isScript(file) {
			continue
		}
		if _, err := p.program(file, a.program); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) companion(a *appliedRecipe, name string) (string, error) {
	if path.IsAbs(name) {
		return name, nil
	}
	beside := path.Join(a.bin, name)
	if _, err := p.tree.find(beside); err == nil {
		return beside, nil
	}
	return Find(name)
}

// applyRecipes adds the files that recipes list as opened.
func (p *packer) applyRecipes() error {
	for _, a := range p.recipes {
		for _, pattern := range a.expand(a.program, a.bin, a.Open) {
			files, _ := filepath.Glob(p.tree.hostPath(path.Clean(pattern))) // a malformed pattern finds nothing
			for _, f := range files {
				if err := a.closure.open(p.tree.inside(f), partDir(pattern, p.tree.inside(f))); err != nil {
					return err
				}
			}
		}
	}
	return p.tree.check()
}

// partDir is the directory under which the files of a pattern are reported together.
func partDir(pattern, file string) string {
	if strings.ContainsAny(path.Base(pattern), "*[") {
		return path.Dir(file)
	}
	return ""
}

// base adds the files of every image. They replace files from the host.
func (p *packer) base() {
	base := append(Base(), text("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"))
	for _, c := range p.closures {
		if c.glibc != nil {
			for _, e := range c.glibc.files() {
				e.Wanted = c.main.path
				base = append(base, e)
			}
		}
	}
	for _, e := range base {
		p.tree.set(e)
	}
}

// make adds the files that recipes make, and replaces the base's users by theirs.
func (p *packer) make() error {
	for _, a := range p.recipes {
		for _, m := range a.Make {
			e := Entry{Path: m.Path, Mode: m.Mode, Data: []byte(m.Text), Size: int64(len(m.Text)), Wanted: a.program}
			for _, u := range a.Users {
				if u.Name == m.Owner {
					e.UID, e.GID = u.UID, u.GID
				}
			}
			if err := p.tree.put(e); err != nil {
				return err
			}
		}
		p.users = append(p.users, a.Users...)
	}
	p.tree.set(text("/etc/passwd", passwd(p.users)))
	p.tree.set(text("/etc/group", group(p.users)))
	return nil
}
