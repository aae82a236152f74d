package inspect

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/image/rpmdb"
)

// maxPackages bounds what one image may list. A full desktop has some thousand.
const maxPackages = 200_000

// packages reads every database of packages that is there.
func (r *Report) packages(t *tree) {
	if text, ok := r.read(t, dpkgStatus); ok {
		r.Packages = append(r.Packages, parseDpkg(text)...)
	}
	for _, name := range t.names(dpkgParts) {
		if text, ok := t.content(path.Join(dpkgParts, name)); ok {
			r.Packages = append(r.Packages, parseDpkg(text)...)
		}
	}
	for _, file := range apkFiles {
		if text, ok := r.read(t, file); ok {
			r.Packages = append(r.Packages, parseAPK(text)...)
			break // the other one is a link to it
		}
	}
	r.rpm(t)
	if len(r.Packages) > maxPackages {
		r.note("more than %d packages: the rest is left out", maxPackages)
		r.Packages = r.Packages[:maxPackages]
	}
	slices.SortStableFunc(r.Packages, func(a, b Package) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Arch, b.Arch), strings.Compare(a.Version, b.Version))
	})
	r.Packages = slices.Compact(r.Packages)
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// read is the content of a database, with a note if it is not whole.
func (r *Report) read(t *tree, name string) ([]byte, bool) {
	n := t.find(name, true)
	if n == nil || n.content == nil {
		return nil, false
	}
	if n.cut {
		r.note("/%s is larger than %d bytes: the packages that it lists further on are left out", name, len(n.content))
	}
	return n.content, true
}

// rpm reads the one database that rpm would read.
func (r *Report) rpm(t *tree) {
	for _, dir := range rpmDirs {
		for _, base := range rpmdb.Files() {
			name := path.Join(dir, base)
			n := t.find(name, true)
			if n == nil || len(n.content) == 0 {
				continue
			}
			if wal := t.find(name+"-wal", true); wal != nil && wal.size > 0 {
				r.note("/%s has a journal that is not read: what rpm did last may be missing", name)
			}
			r.rpmFile(name, n)
			return
		}
	}
}

func (r *Report) rpmFile(name string, n *node) {
	if n.cut {
		r.note("/%s is larger than %d bytes: the packages of rpm are not listed", name, len(n.content))
		return
	}
	all, err := rpmdb.Packages(n.content)
	if err != nil {
		r.note("/%s: %v: the packages of rpm are not all listed", name, err)
	}
	for _, p := range all {
		r.Packages = append(r.Packages, Package{Name: clip(p.Name), Version: clip(p.Version), Arch: clip(p.Arch), Manager: "rpm"})
	}
}

// parseDpkg reads stanzas such as
//
//	Package: libc6
//	Status: install ok installed
//	Version: 2.36-9
//
// of packages that are installed. Files of single packages say no status.
func parseDpkg(text []byte) []Package {
	return stanzas(text, ": ", func(field map[string]string) (Package, bool) {
		status, ok := field["Status"]
		installed := !ok || strings.HasSuffix(status, " installed")
		return Package{Name: field["Package"], Version: field["Version"], Arch: field["Architecture"], Manager: "dpkg"}, installed
	}, "Package", "Version", "Architecture", "Status")
}

// parseAPK reads stanzas such as
//
//	P:musl
//	V:1.2.5-r0
func parseAPK(text []byte) []Package {
	return stanzas(text, ":", func(field map[string]string) (Package, bool) {
		return Package{Name: field["P"], Version: field["V"], Arch: field["A"], Manager: "apk"}, true
	}, "P", "V", "A")
}

// stanzas splits a text at empty lines, and makes a package of the fields of
// each part. The first of two fields of one name counts.
func stanzas(text []byte, separator string, make func(map[string]string) (Package, bool), fields ...string) []Package {
	var all []Package
	field := map[string]string{}
	end := func() {
		if p, ok := make(field); ok && p.Name != "" && len(all) <= maxPackages {
			all = append(all, p)
		}
		clear(field)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			end()
			continue
		}
		key, value, ok := strings.Cut(line, separator)
		if _, twice := field[key]; ok && !twice && slices.Contains(fields, key) {
			field[key] = clip(strings.TrimSpace(value))
		}
	}
	end()
	return all
}

// clip bounds a name or a version. What is no text in it stays one byte.
func clip(s string) string {
	const most = 256
	return strings.ToValidUTF8(s[:min(len(s), most)], "?")
}
