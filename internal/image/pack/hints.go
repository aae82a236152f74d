package pack

import (
	"path"
	"path/filepath"
	"slices"
)

// What programs open by themselves no rule of a loader tells. These are known.
// What is not installed is not missed: the program runs without it outside too.

// opened are the libraries that glibc opens when a program needs them: to end a
// thread, and to look up users and names. In newer versions the last two are
// part of it.
var opened = []string{"libgcc_s.so.1", "libnss_files.so.2", "libnss_dns.so.2"}

// openedBy are the files that programs open: objects with what they need, and
// other files as they are.
var openedBy = map[string][]string{
	// Distributions that build I/O engines apart.
	"fio": {"/usr/lib/*/fio/*.so", "/usr/lib/fio/*.so", "/usr/lib64/fio/*.so", "/usr/local/lib/fio/*.so"},
	// Tests written in Lua. Those of CPU, memory, threads and files are built in.
	"sysbench": {"/usr/share/sysbench/*.lua", "/usr/local/share/sysbench/*.lua"},
}

// readBy are the files that libraries read, by the name that they are wanted by.
var readBy = map[string][]string{
	// Descriptions of terminals, of which there are thousands.
	"libtinfo.so.6":    terminals(),
	"libtinfo.so.5":    terminals(),
	"libncursesw.so.6": terminals(),
}

func terminals() (patterns []string) {
	for _, dir := range []string{"/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo"} {
		for _, name := range []string{"d/dumb", "l/linux", "v/vt100", "x/xterm", "x/xterm-256color"} {
			patterns = append(patterns, path.Join(dir, name))
		}
	}
	return patterns
}

// libraries adds what glibc opens.
func (c *closure) libraries() {
	libc := &object{dynamic: &dynamic{}, path: "libc.so.6", parent: c.main}
	for _, name := range opened {
		c.try(func() error {
			libc.needed = []string{name}
			return c.load(libc)
		})
	}
}

// hints adds what the program and its libraries open.
func (c *closure) hints() {
	if c.glibc != nil {
		c.libraries()
	}
	patterns := slices.Clone(openedBy[path.Base(c.main.path)])
	for library, files := range readBy {
		if c.loaded[library] {
			patterns = append(patterns, files...)
		}
	}
	for _, p := range patterns {
		// A pattern of these is never malformed.
		files, _ := filepath.Glob(c.tree.outside(p))
		for _, f := range files {
			c.try(func() error { return c.open(f) })
		}
	}
}

// open adds a file that the program opens, with what it needs if it is an object.
func (c *closure) open(outside string) error {
	name := c.tree.inside(outside)
	if path.Ext(name) == ".so" {
		o, err := c.library(c.main, name)
		if err != nil {
			return err
		}
		return c.load(o)
	}
	w, err := c.tree.find(name)
	if err == nil {
		c.tree.take(w, c.main.path)
	}
	return err
}
