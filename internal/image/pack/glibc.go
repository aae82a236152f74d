package pack

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// cacheFile is the list of libraries that glibc's ldconfig writes.
const cacheFile = "/etc/ld.so.cache"

// glibc has the rules of ld-linux.so: see ld.so(8) and, for the details, _dl_map_object in glibc's
// elf/dl-load.c.
type glibc struct {
	tree     *tree
	cache    *cache // nil if there is none
	flags    uint32 // of libraries for this architecture in the cache
	dirs     []string
	lib      string // value of $LIB: "lib/x86_64-linux-gnu", "lib64" …
	platform string // value of $PLATFORM
}

// newGlibc derives the settings that were compiled into the loader at w from the loader's
// directory.
func newGlibc(t *tree, main *object, w pathTrace) (*glibc, error) {
	g := &glibc{tree: t, flags: 0x0303, platform: "x86_64"} // FLAG_ELF_LIBC6 | FLAG_X8664_LIB64
	if main.machine == elf.EM_AARCH64 {
		g.flags, g.platform = 0x0a03, "aarch64" // FLAG_ELF_LIBC6 | FLAG_AARCH64_LIB64
	}
	dir := path.Dir(w.file().Path)
	g.lib = strings.TrimPrefix(strings.TrimPrefix(dir, "/usr"), "/")
	if !strings.HasPrefix(g.lib, "lib") {
		g.dirs = []string{dir} // a loader with a prefix of its own does not know the system's
		return g, nil
	}
	for _, d := range []string{"/" + g.lib, "/usr/" + g.lib, "/lib", "/usr/lib"} {
		if !slices.Contains(g.dirs, d) {
			g.dirs = append(g.dirs, d)
		}
	}
	var err error
	g.cache, err = t.readCache()
	return g, err
}

// readCache reads the host's cache; it is nil if there is none.
func (t *tree) readCache() (*cache, error) {
	w, err := t.find(cacheFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	raw, err := w.read(maxCache + 1)
	if err != nil {
		return nil, err
	}
	c, err := parseCache(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: run ldconfig to write it again", cacheFile, err)
	}
	return c, nil
}

// provides implements rules: glibc's loader is found like any library.
func (g *glibc) provides(string) bool { return false }

// places implements rules.
func (g *glibc) places(by *object, name string) (places []place) {
	if strings.Contains(name, "/") {
		return []place{{path: g.expand(by, name)}}
	}
	if by.runpath == nil {
		for o := by; o != nil; o = o.parent {
			places = append(places, g.below(o, o.rpath, name)...)
		}
	}
	places = append(places, g.below(by, by.runpath, name)...)
	if by.noDefault {
		return places
	}
	places = append(places, g.cache.places(name, g.flags)...)
	return append(places, g.below(by, g.dirs, name)...)
}

// below returns the possible paths of a library in directories that o names.
func (g *glibc) below(o *object, dirs []string, name string) (places []place) {
	for _, dir := range dirs {
		dir = g.expand(o, dir)
		// dir could contain pattern characters, but then Glob would only find less.
		variants, _ := filepath.Glob(g.tree.hostPath(path.Join(dir, "glibc-hwcaps/*", name)))
		for _, v := range variants {
			sub := path.Base(path.Dir(v))
			places = append(places, place{path.Join(dir, "glibc-hwcaps", sub, name), true})
		}
		places = append(places, place{path.Join(dir, name), false})
	}
	return places
}

// expand replaces the dynamic string tokens.
func (g *glibc) expand(o *object, s string) string {
	return strings.NewReplacer(
		"$ORIGIN", o.origin, "${ORIGIN}", o.origin,
		"$LIB", g.lib, "${LIB}", g.lib,
		"$PLATFORM", g.platform, "${PLATFORM}", g.platform,
	).Replace(s)
}

// files are the files for glibc that are made for the image: name services that use only files, and
// the relevant part of the cache, without which libraries outside the default directories would not
// be found.
func (g *glibc) files() []Entry {
	files := []Entry{text("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")}
	if g.cache == nil {
		return files
	}
	var out bytes.Buffer
	g.cache.only(func(e cacheEntry) bool { return g.tree.has(e.path) }).write(&out)
	return append(files, text(cacheFile, out.String()))
}

// has reports whether a file, and every directory and link on its path, is in the tree.
func (t *tree) has(name string) bool {
	w, err := t.find(name)
	if err != nil {
		return false
	}
	for _, e := range w {
		if _, ok := t.entries[e.Path]; !ok {
			return false
		}
	}
	return true
}
