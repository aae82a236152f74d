package pack

import (
	"errors"
	"io/fs"
	"path"
	"strings"
)

// musl has the rules of musl's loader: see ldso/dynlink.c of musl.
type musl struct{ dirs []string }

// maxPathFile limits the file that names musl's directories, in bytes.
const maxPathFile = 64 << 10

// newMusl reads the loader's search directories from a file whose name is derived from the
// loader's. The file is packed too.
func newMusl(t *tree, loader string) (*musl, error) {
	base := strings.TrimSuffix(path.Base(loader), path.Ext(path.Base(loader))) // ld-musl-x86_64.so
	name := path.Join(path.Dir(path.Dir(loader)), "etc", strings.TrimSuffix(base, ".so")+".path")
	w, err := t.find(name)
	if errors.Is(err, fs.ErrNotExist) {
		return &musl{[]string{"/lib", "/usr/local/lib", "/usr/lib"}}, nil
	}
	if err != nil {
		return nil, err
	}
	raw, err := w.read(maxPathFile)
	if err != nil {
		return nil, err
	}
	t.addTrace(w, loader)
	return &musl{strings.FieldsFunc(string(raw), func(r rune) bool { return r == ':' || r == '\n' })}, nil
}

// provides implements rules: musl's loader is the whole C library.
func (m *musl) provides(name string) bool {
	part, _, _ := strings.Cut(strings.TrimPrefix(name, "lib"), ".")
	switch part {
	case "c", "pthread", "rt", "m", "dl", "util", "xnet":
		return strings.HasPrefix(name, "lib")
	}
	return false
}

// places implements rules. musl treats RPATH and RUNPATH alike, and inherits both.
func (m *musl) places(by *object, name string) (places []place) {
	if strings.Contains(name, "/") {
		return []place{{path: name}}
	}
	for o := by; o != nil; o = o.parent {
		for _, dir := range m.expand(o) {
			places = append(places, place{path: path.Join(dir, name)})
		}
	}
	for _, dir := range m.dirs {
		places = append(places, place{path: path.Join(dir, name)})
	}
	return places
}

// expand returns the directories that o names. $ORIGIN is the only token; if there is another one,
// musl ignores all of them.
func (m *musl) expand(o *object) (dirs []string) {
	for _, dir := range append(o.rpath, o.runpath...) { // only one of them exists
		dir = strings.NewReplacer("$ORIGIN", o.origin, "${ORIGIN}", o.origin).Replace(dir)
		if strings.Contains(dir, "$") {
			return nil
		}
		dirs = append(dirs, dir)
	}
	return dirs
}
