package pack

import (
	"cmp"
	"path"
)

// Loaders have no rule for the files that libraries open by themselves. The known ones are listed
// here; see Recipe for files that programs open. If one is not installed, it is skipped, because
// the program runs without it outside too.

// dlopenedLibraries are the libraries that glibc opens when a program needs them: to end a
// thread, and to look up users and names. In newer versions the last two are
// part of it.
var dlopenedLibraries = []string{"libgcc_s.so.1", "libnss_files.so.2", "libnss_dns.so.2"}

// filesReadBy are the files that libraries read, by the libraries' names.
func filesReadBy() map[string][]string {
	return map[string][]string{
		// Descriptions of a few common terminals among thousands.
		"libtinfo.so.6":    terminfoPatterns(),
		"libtinfo.so.5":    terminfoPatterns(),
		"libncursesw.so.6": terminfoPatterns(),
	}
}

func terminfoPatterns() (patterns []string) {
	for _, dir := range []string{"/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo"} {
		for _, name := range []string{"d/dumb", "l/linux", "v/vt100", "x/xterm", "x/xterm-256color"} {
			patterns = append(patterns, path.Join(dir, name))
		}
	}
	return patterns
}

// libraries adds the libraries that glibc opens.
func (c *closure) libraries() {
	libc := &object{dynamic: &dynamic{}, path: "libc.so.6", parent: c.main}
	for _, name := range dlopenedLibraries {
		c.try(func() error {
			libc.needed = []string{name}
			return c.load(libc)
		})
	}
}

// hints adds the files that glibc and the program's libraries open.
func (c *closure) hints() error {
	if c.glibc != nil {
		c.libraries()
	}
	for library, files := range filesReadBy() {
		if !c.loaded[library] {
			continue
		}
		for _, f := range files {
			if err := c.open(f, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// open adds something that the program opens: a file, an object with the libraries that it needs,
// or everything in a directory. It skips files that cannot be opened outside either. part is the
// directory under which the files are reported together; "" for none.
func (c *closure) open(name, part string) error {
	w, err := c.tree.resolve(name)
	switch {
	case err != nil:
		return nil
	case !w.regular():
		c.tree.addTrace(w.trace, "")
		return c.openAll(w.at, cmp.Or(part, w.at))
	case path.Ext(name) != ".so":
		c.tree.addTrace(w.trace, c.main.path)
	case c.rules != nil: // a static program opens no libraries
		c.try(func() error {
			o, err := c.library(c.main, name)
			if err != nil {
				return err
			}
			return c.load(o)
		})
	}
	c.tree.markPart(w.trace.file().Path, part)
	return nil
}

// openAll adds the contents of a directory, including the targets of links.
func (c *closure) openAll(dir, part string) error {
	return c.tree.walk(dir, func(name string, e Entry) error {
		if e.Mode.IsDir() {
			c.tree.addTrace(pathTrace{e}, "")
			return c.tree.check()
		}
		w, err := c.tree.find(name)
		if err != nil {
			return nil // a dangling link
		}
		c.tree.addTrace(w, c.main.path)
		c.tree.markPart(w.file().Path, part)
		return c.tree.check()
	})
}
