package pack

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// NoRecipe is the Request.Recipe that stands for none.
const NoRecipe = "none"

// A Request says what an image is to hold.
type Request struct {
	Programs []string // names or absolute paths, see Find; the first is what a container runs
	Recipe   string   // name of that of the first program; empty = each program's own, if there is one
	Files    []File
	Users    []string // names of users of the host; a container runs as the first
	Scripts  bool     // a script is packed with its interpreter, though what it runs cannot be told
	Process  Process  // what of it is not empty replaces the recipe's
}

// A File is a file or directory of the host that an image is to hold.
type File struct {
	Source string // its path on the host, absolute
	Dest   string // its path inside, absolute; empty = the same
}

// A packer makes one Set.
type packer struct {
	tree     *tree
	request  Request
	closures []*closure // of programs, in the order in which they were wanted
	recipes  []*applied
	accounts accounts
	set      Set
}

// An applied recipe is one for a program that was packed.
type applied struct {
	*Recipe
	closure *closure
	program string // the file as it was found
	bin     string // the directory that it really is in
}

// Pack returns programs with everything that they need. Errors wrap
// bench.ErrUnsupported where one cannot be packed: it is missing, a script or for
// another architecture, or lacks a library itself.
func (h Host) Pack(r Request) (*Set, error) {
	p := &packer{tree: newTree(h), request: r}
	for _, step := range []func() error{p.programs, p.objects, p.cook, p.base, p.make, p.users, p.files, p.process} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.tree.entries)) {
		p.set.Entries = append(p.set.Entries, p.tree.entries[name])
	}
	return &p.set, p.tree.check()
}

// programs adds what was asked for, and what its recipes cannot do without.
func (p *packer) programs() error {
	if len(p.request.Programs) == 0 {
		return fmt.Errorf("%w: no program to pack", bench.ErrUnsupported)
	}
	for i, name := range p.request.Programs {
		recipe, err := p.recipeFor(i, name)
		if err != nil {
			return err
		}
		file, err := recipe.find(p.tree, name)
		if err != nil {
			return err
		}
		c, err := p.program(file, "", 0)
		if err != nil {
			return err
		}
		if i == 0 {
			p.set.Program = file
		}
		if recipe.Name == "" {
			continue
		}
		a := &applied{recipe, c, file, c.main.origin}
		p.recipes = append(p.recipes, a)
		if err := p.companions(a); err != nil {
			return err
		}
	}
	return nil
}

// recipeFor returns the recipe of the program that was named as number i; one
// without a name if there is none.
func (p *packer) recipeFor(i int, program string) (*Recipe, error) {
	none := &Recipe{}
	switch want := p.request.Recipe; {
	case want == NoRecipe:
		return none, nil
	case want != "" && i == 0:
		if r := recipeNamed(want); r != nil {
			return r, nil
		}
		return nil, fmt.Errorf("%w: no recipe %q: there are %s", bench.ErrUnsupported, want, strings.Join(RecipeNames(), ", "))
	}
	if r := recipeOf(program); r != nil {
		return r, nil
	}
	return none, nil
}

// program adds a program. A script comes with its interpreter, whose closure is
// the program's.
func (p *packer) program(file, wanted string, depth int) (*closure, error) {
	if p.request.Scripts && depth < maxInterpreters {
		line, err := p.tree.script(file)
		if err != nil {
			return nil, err
		}
		if line != "" {
			return p.script(file, wanted, line, depth)
		}
	}
	c := newClosure(p.tree)
	c.wanted = wanted
	if err := c.program(file); err != nil {
		return nil, err
	}
	p.closures = append(p.closures, c)
	p.set.SetID = p.set.SetID || c.setID
	return c, c.hints()
}

// companions adds the programs that come with another one: from beside it, or
// else as they are found.
func (p *packer) companions(a *applied) error {
	for _, name := range a.With {
		file, err := p.companion(a, name)
		if err == nil {
			_, err = p.program(file, a.program, 0)
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
		if _, err := p.program(file, a.program, 0); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) companion(a *applied, name string) (string, error) {
	if path.IsAbs(name) {
		return name, nil
	}
	beside := path.Join(a.bin, name)
	if _, err := p.tree.find(beside); err == nil {
		return beside, nil
	}
	return Find(name)
}

// cook adds what recipes say is opened.
func (p *packer) cook() error {
	for _, a := range p.recipes {
		for _, pattern := range a.expand(a.program, a.bin, a.Open) {
			files, _ := filepath.Glob(p.tree.outside(path.Clean(pattern))) // well-formed, or else it finds less
			for _, f := range files {
				if err := a.closure.open(p.tree.inside(f), partOf(pattern, p.tree.inside(f))); err != nil {
					return err
				}
			}
		}
	}
	return p.tree.check()
}

// partOf is the directory as whose part files of a pattern are told.
func partOf(pattern, file string) string {
	if strings.ContainsAny(path.Base(pattern), "*[") {
		return path.Dir(file)
	}
	return ""
}

// base adds what is in every image, in the place of what was taken.
func (p *packer) base() error {
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
	return nil
}

// make adds what recipes make, and their users.
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
		for _, u := range a.Users {
			p.accounts.add(u)
		}
	}
	return nil
}
