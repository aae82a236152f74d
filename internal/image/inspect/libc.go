package inspect

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/tare-bench/tare/internal/image"
)

// isLibrary reports whether a file may be a C library, by where it is and what
// it is called: libc.so.6, which older releases have as a link to libc-2.31.so,
// and musl's, which is its own dynamic loader.
func isLibrary(dir, base string) bool {
	top := strings.TrimPrefix(dir, "usr/")
	first, below, _ := strings.Cut(top, "/")
	if first != "lib" && first != "lib64" || strings.Contains(below, "/") || below != "" && !strings.Contains(below, "-linux-") {
		return false
	}
	return base == "libc.so.6" || strings.HasPrefix(base, "libc-2.") && strings.HasSuffix(base, ".so") ||
		strings.HasPrefix(base, "ld-musl-") || base == "libc.so" && strings.HasSuffix(below, "-musl")
}

var (
	glibcBanner = regexp.MustCompile(`GNU C Library [ -~]{0,200}?version ([0-9]{1,9}\.[0-9]{1,9}(?:\.[0-9]{1,9})?)`)
	muslVersion = regexp.MustCompile(`\x00(1\.[0-9]{1,9}\.[0-9]{1,9})\x00`)
)

// maxLibraries bounds how many files are searched for a version. An image has two
// or three.
const maxLibraries = 64

// libraries are the C libraries that programs in the tree can be linked to. What
// the file itself says of its version is its version.
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
				continue // by another name
			}
			if searched[n.inode] = true; len(searched) > maxLibraries {
				r.Notes = append(r.Notes,
					fmt.Sprintf("more than %d files are called like C libraries: the rest is left out", maxLibraries))
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

// add leaves out what the same directory has under another name.
func add(all []Libc, l Libc) []Libc {
	for _, other := range all {
		if other.Name == l.Name && other.Version == l.Version {
			return all
		}
	}
	return append(all, l)
}

// libraryDirs are the directories that the loaders of either look into, which
// may be links to one another.
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
