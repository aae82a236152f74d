package inspect

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	glibcBanner = regexp.MustCompile(`GNU C Library [ -~]{0,200}?version ([0-9]{1,9}\.[0-9]{1,9}(?:\.[0-9]{1,9})?)`)
	muslVersion = regexp.MustCompile(`\x00(1\.[0-9]{1,9}\.[0-9]{1,9})\x00`)
)

// Limits on what is read.
const (
	maxLibraries = 64       // files that are searched for a version; an image has two or three
	maxLibrary   = 16 << 20 // bytes of each
)

// libraries are the C libraries that programs in the image can be linked to: libc.so.6, or musl,
// which is also the dynamic loader. Their versions come from the files themselves.
func (r *Report) libraries(t tree) []Libc {
	var all []Libc
	searched := map[uint64]bool{}
	for _, dir := range libraryDirs(t) {
		for _, base := range t.names(dir) {
			name, version := "glibc", glibcBanner
			if strings.HasPrefix(base, "ld-musl-") {
				name, version = "musl", muslVersion
			} else if base != "libc.so.6" {
				continue
			}
			file := path.Join(dir, base)
			n, ok := t.file(file)
			if !ok || searched[n] {
				continue // no file, or one that was read under another name
			}
			if searched[n] = true; len(searched) > maxLibraries {
				r.Notes = append(r.Notes,
					fmt.Sprintf("more than %d files have names of C libraries: the rest was not read", maxLibraries))
				return all
			}
			all = add(all, Libc{name, submatch(version, t.read(file, maxLibrary)), "/" + file})
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
func libraryDirs(t tree) []string {
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
