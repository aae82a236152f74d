package pack

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Recipe says what a program needs that no rule of a loader tells, and how it
// is run in a container. In its paths $BIN is the directory that the program's
// file really is in, and $VERSION the name of the one above. What is not installed
// is not missed, but for the programs With.
type Recipe struct {
	Name  string
	For   []string // names of the programs that it is for
	Where []string // patterns of their files, for those that are not in PATH, or only as a script
	With  []string // names or absolute paths of programs that it cannot do without
	Also  []string // and that come along
	Open  []string // patterns of files, of objects, which come with their libraries, and of whole directories
	Make  []Made
	Users []User

	Entrypoint []string // $PROGRAM is the program's file; empty = that alone
	Cmd        []string
	Env        []string // KEY=VALUE
	Dir        string   // working directory; one that every host has
	Ports      []string // on which it listens then, such as "80/tcp"
}

// Made is a file or directory that a Recipe makes.
type Made struct {
	Path  string
	Mode  fs.FileMode // with fs.ModeDir for a directory
	Owner string      // the name of one of the recipe's users; empty = root
	Text  string
}

// RecipeNames are the names of the Recipes.
func RecipeNames() (names []string) {
	for _, r := range Recipes() {
		names = append(names, r.Name)
	}
	return names
}

// recipeOf returns the recipe for a program of this name, or that is named so itself;
// nil if there is none.
func recipeOf(program string) *Recipe {
	for _, r := range Recipes() {
		if slices.Contains(r.For, path.Base(program)) || r.Name == program {
			return &r
		}
	}
	return nil
}

// find returns the file that a program's name means. The recipe's own name means the
// first of its programs that is there, where no program has that name.
func (r *Recipe) find(t *tree, name string) (string, error) {
	if name != r.Name || slices.Contains(r.For, name) {
		return r.program(t, name)
	}
	for _, candidate := range append([]string{name}, r.For...) {
		file, err := r.program(t, candidate)
		if !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
	return "", notFound(r.For[0])
}

// program returns what Find does, or where that is only a script around the program,
// or nothing, the newest in the recipe's places.
func (r *Recipe) program(t *tree, name string) (string, error) {
	file, err := Find(name)
	if err == nil && (filepath.IsAbs(name) || !t.isScript(file)) {
		return file, nil
	}
	var found []string
	for _, pattern := range r.Where {
		if path.Base(pattern) == name {
			files, _ := filepath.Glob(t.outside(pattern)) // well-formed
			for _, f := range files {
				found = append(found, t.inside(f))
			}
		}
	}
	if len(found) == 0 {
		return file, err
	}
	return slices.MaxFunc(found, byVersion), nil
}

// byVersion compares paths by the first number in each.
func byVersion(a, b string) int {
	va, vb := versionIn(a), versionIn(b)
	switch {
	case va < vb:
		return -1
	case va > vb:
		return 1
	}
	return strings.Compare(a, b)
}

func versionIn(file string) float64 {
	digits := strings.FieldsFunc(file, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	for _, d := range digits {
		if v, err := strconv.ParseFloat(d, 64); err == nil {
			return v
		}
	}
	return 0
}

// expand replaces what a recipe's strings say of a program: the file that it was
// found as, and the directory that it really is in.
func (r *Recipe) expand(program, bin string, all []string) (out []string) {
	tokens := strings.NewReplacer("$PROGRAM", program, "$BIN", bin, "$VERSION", path.Base(path.Dir(bin)))
	for _, s := range all {
		out = append(out, tokens.Replace(s))
	}
	return out
}

// isScript reports whether a file is interpreted by another program.
func (t *tree) isScript(name string) bool {
	w, err := t.find(name)
	if err != nil {
		return false // whoever wants the program will say so
	}
	head, err := w.read(2)
	return err == nil && string(head) == "#!"
}
