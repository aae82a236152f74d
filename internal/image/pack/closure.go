package pack

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// An object is a program or library that the dynamic loader loads.
type object struct {
	*dynamic
	path   string  // as it was found, without following links
	origin string  // the value of $ORIGIN in it
	parent *object // the object that needed it first; nil for the program
}

// A place is a possible path of a library.
type place struct {
	path    string
	variant bool // for some CPUs only: the loader may go on to the next place
}

// rules are the search rules of one dynamic loader.
type rules interface {
	// places returns where the loader looks for a library that by needs, in order.
	places(by *object, name string) []place
	// provides reports whether the loader itself is the library with that name.
	provides(name string) bool
}

// A closure collects a program and everything that it needs.
type closure struct {
	tree     *tree
	rules    rules           // of the program's loader; nil for a static program
	glibc    *glibc          // the rules, if they are glibc's
	main     *object         // the program
	loaded   map[string]bool // names of found libraries: as they were requested, and their own names
	setID    bool            // the program is set-user-ID or set-group-ID
	neededBy string          // what needs the program; empty if the user named it
}

func newClosure(t *tree) *closure { return &closure{tree: t, loaded: map[string]bool{}} }

// packError is the error for a program that cannot be packed.
func packError(program, format string, args ...any) error {
	return fmt.Errorf("%w: %s %w", bench.ErrUnsupported, program, fmt.Errorf(format, args...))
}

// program adds the program and the libraries that it is linked to.
func (c *closure) program(name string) error {
	w, err := c.tree.find(name)
	if err != nil {
		return fmt.Errorf("%w: program: %w", bench.ErrUnsupported, err)
	}
	d, err := w.dynamic()
	switch {
	case errors.Is(err, errNotELF):
		return c.notELF(name, w, err)
	case err != nil:
		return fmt.Errorf("program %s: %w", name, err)
	case d.machine != machines[runtime.GOARCH] || d.class != elf.ELFCLASS64:
		return packError(name, "is for another architecture: %s, %s; this machine is %s", d.machine, d.class, runtime.GOARCH)
	case w.file().Mode&0o111 == 0:
		return packError(name, "is not executable: make it executable with chmod +x")
	}
	c.setID = w.file().info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0
	c.tree.addTrace(w, c.neededBy)
	c.main = &object{dynamic: d, path: name, origin: path.Dir(w.file().Path)}
	if d.interpreter == "" {
		return nil // a static program: the kernel does everything
	}
	if err := c.interpreter(); err != nil {
		return err
	}
	return c.load(c.main)
}

// machines are the architectures that tare is built for.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// notELF returns the error for a program that is not an ELF file.
func (c *closure) notELF(name string, w pathTrace, err error) error {
	head, _ := w.read(256) // as much as the kernel reads of a script; if this fails, err remains
	first, _, _ := strings.Cut(string(head), "\n")
	if !strings.HasPrefix(first, "#!") {
		return packError(name, "cannot be packed: %w", err)
	}
	return packError(name, "is a script for %.200q: tare cannot find out what it needs: name the program that it runs, "+
		"or put it into an image (oci:DIR, tar:FILE)",
		strings.TrimSpace(first[2:]))
}

// interpreter adds the dynamic loader, and finds out its rules.
func (c *closure) interpreter() error {
	name := c.main.interpreter
	w, err := c.tree.find(name)
	if err != nil {
		return packError(c.main.path, "needs a dynamic loader that is missing: %w: install the C library that it was "+
			"built with", err)
	}
	c.tree.addTrace(w, c.main.path)
	switch base := path.Base(name); {
	case !path.IsAbs(name):
	case strings.HasPrefix(base, "ld-linux"):
		c.glibc, err = newGlibc(c.tree, c.main, w)
		c.rules = c.glibc
		return err
	case strings.HasPrefix(base, "ld-musl-"):
		c.rules, err = newMusl(c.tree, name)
		return err
	}
	return packError(c.main.path, "has the dynamic loader %s, but tare knows only the rules of glibc and musl: put the "+
		"program into an image (oci:DIR, tar:FILE)", name)
}

// load adds everything that o needs, breadth first, as loaders do.
func (c *closure) load(o *object) error {
	for queue := []*object{o}; len(queue) > 0; queue = queue[1:] {
		for _, name := range queue[0].needed {
			found, err := c.addLibrary(queue[0], name)
			if err != nil {
				return err
			}
			queue = append(queue, found...)
		}
	}
	return nil
}

// addLibrary adds the library that by needs under a name, unless it was added before. It adds several if
// there are variants for some CPUs.
func (c *closure) addLibrary(by *object, name string) (found []*object, err error) {
	if c.loaded[name] || c.rules.provides(name) {
		return nil, nil
	}
	places := c.rules.places(by, name)
	for _, p := range places {
		if !path.IsAbs(p.path) {
			continue // relative to a working directory, which differs inside
		}
		o, err := c.library(by, p.path)
		if errors.Is(err, errOtherMachine) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue // a loader skips it too
		}
		if err != nil {
			return nil, packError(by.path, "needs %s: %w", p.path, err)
		}
		found = append(found, o)
		c.loaded[name], c.loaded[o.soname] = true, true
		if !p.variant {
			break
		}
	}
	if len(found) == 0 {
		return nil, packError(by.path, "needs the library %s, which is not in %s: %w: install it", name,
			searchedDirs(places), fs.ErrNotExist)
	}
	return found, nil
}

// searchedDirs names the directories of places.
func searchedDirs(places []place) string {
	var dirs []string
	for _, p := range places {
		if dir := path.Dir(p.path); !p.variant && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return "any directory in which its loader looks"
	}
	return strings.Join(dirs, ", ")
}

// errOtherMachine means that a library is for another architecture.
var errOtherMachine = errors.New("for another architecture")

// library adds the library in a file.
func (c *closure) library(by *object, file string) (*object, error) {
	w, err := c.tree.find(file)
	if err != nil {
		return nil, err
	}
	d, err := w.dynamic()
	if err != nil {
		return nil, err
	}
	if d.machine != c.main.machine || d.class != c.main.class {
		return nil, errOtherMachine
	}
	c.tree.addTrace(w, by.path)
	return &object{dynamic: d, path: file, origin: path.Dir(file), parent: by}, nil
}

// try calls op, and undoes everything if op fails. It is for files that a program opens only if
// they exist.
func (c *closure) try(op func() error) {
	entries, bytes, loaded := maps.Clone(c.tree.entries), c.tree.bytes, maps.Clone(c.loaded)
	if err := op(); err != nil {
		c.tree.entries, c.tree.bytes, c.loaded = entries, bytes, loaded
	}
}
