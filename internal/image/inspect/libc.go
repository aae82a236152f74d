package inspect

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/tare-bench/tare/internal/image"
)

// isLibrary reports whether a file may be a C library, by its directory and name: libc.so.6, which
// in older releases is a link to a file such as libc-2.31.so, or musl's, which is also the dynamic
// loader.
func isLibrary(dir, base string) bool {
	top := strings.TrimPrefix(dir, "usr/")
	first, below, _ := strings.Cut(top, "/")
	if first != "lib" && first != "lib64" || strings.Contains(below, "/") ||
		below != "" && !strings.Contains(below, "-linux-") {
		return false
	}
	return base == "libc.so.6" || strings.HasPrefix(base, "libc-2.") && strings.HasSuffix(base, ".so") ||
		strings.HasPrefix(base, "ld-musl-") || base == "libc.so" && strings.HasSuffix(below, "-musl")
}

var (
	glibcBanner = regexp.MustCompile(`GNU C Library [ -~]{0,200}?version ([0-9]{1,9}\.[0-9]{1,9}(?:\.[0-9]{1,9})?)`)
	muslVersion = regexp.MustCompile(`\x00(1\.[0-9]{1,9}\.[0-9]{1,9})\x00`)
)

// maxLibraries limits how many files are searched for a version. An image has two or three.
const maxLibraries = 64

// libraries are the C libraries that programs in the tree can be linked to. Their versions come
// from the files themselves.
func (r *Report) libraries(t *tree) []Libc {
	var all []Libc
	searched := map[*inode]bool{}
	for _, dir := range libraryDirs(t) {
		for _, base := range t.names(dir) {
			name := path.Join(dir, base)
			n := t.find(name, true)
			if n == nil || n.kind != image.File || n.content == nil || strings.HasPrefix(base, "libc-2.") || base == "libc.so" {
				continue // the file behind the link that programs name
			}
			if searched[n.inode] {
				continue // musl under another name
			}
			if searched[n.inode] = true; len(searched) > maxLibraries {
				r.Notes = append(r.Notes,
					fmt.Sprintf("more than %d files have names of C libraries: the rest was not read", maxLibraries))
				return all
			}
			switch {
			case base == "libc.so.6":
				all = add(all, Libc{"glibc", submatch(glibcBanner, n.content), "/" + name})
			case strings.HasPrefix(base, "ld-musl-"):
				all = add(all, Libc{"musl", submatch(muslVersion, n.content), "/" + name})
			}
		}
	}
	return all
}

// add appends a library, unless all has the same one in the same directory under another name.
func add(all []Libc, l Libc) []Libc {
	for _, other := range all {
		if other.Name == l.Name && other.Version == l.Version {
			return all
		}
	}
	return append(all, l)
}

// libraryDirs are the directories in which the loaders of glibc and musl look. They may be links to
// one another.
func libraryDirs(t *tree) []string {
	var all []string
	for _, dir := range []string{"lib", "lib64", "usr/lib", "usr/lib64"} {
		all = append(all, dir)
		for _, name := range t.names(dir) {
			if strings.Contains(name, "-linux-") {
				all = append(all, path.Join(dir, name))
			}
		}
	}
	return all
}

func submatch(re *regexp.Regexp, b []byte) string {
	if m := re.FindSubmatch(b); m != nil {
		return string(m[1])
	}
	return ""
}
