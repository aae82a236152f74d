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

// A Recipe lists the files that a program needs beyond the loader's rules, and how to run the
// program in a container. In its paths $BIN is the real directory of the program's file, and
// $VERSION the name of the directory above that. Files that are not installed are skipped, but the
// programs in With are required.
type Recipe struct {
	Name  string
	For   []string // names of its programs
	Where []string // patterns of the programs' files, if they are not in PATH or only as a script
	With  []string // names or absolute paths of required programs
	Also  []string // optional programs
	Open  []string // patterns of files, objects (with their libraries) and whole directories
	Make  []Made
	Users []User

	Entrypoint []string // $PROGRAM is the program's file; empty = only that
	Cmd        []string
	Env        []string // KEY=VALUE
	Dir        string   // working directory, which must exist on every host
	Ports      []string // on which it then listens, such as "80/tcp"
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

// recipeOf returns the recipe for a program with this name, or the recipe with this name; nil if
// there is none.
func recipeOf(program string) *Recipe {
	for _, r := range Recipes() {
		if slices.Contains(r.For, path.Base(program)) || r.Name == program {
			return &r
		}
	}
	return nil
}

// find returns the file that a program's name means. If no program has the recipe's own name, that
// name means the first of its programs that exists.
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

// program returns the result of Find. If that is missing or only a script around the program, it
// returns the newest file in the recipe's places.
func (r *Recipe) program(t *tree, name string) (string, error) {
	file, err := Find(name)
	if err == nil && (filepath.IsAbs(name) || !t.isScript(file)) {
		return file, nil
	}
	var found []string
	for _, pattern := range r.Where {
		if path.Base(pattern) == name {
			files, _ := filepath.Glob(t.hostPath(pattern)) // well-formed
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

// expand replaces the variables in a recipe's strings: the program's file as it was found, and its
// real directory.
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
		return false // using the program will report the error
	}
	head, err := w.read(2)
	return err == nil && string(head) == "#!"
}
