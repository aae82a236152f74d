// Package host describes the machine of a run: facts that are stored with the run, counters and
// state around each trial, the washout between trials, and things that disturb measurements, each
// with advice.
//
// It reads everything below a root, "/" or a captured tree. What a machine does not tell is empty
// or NaN, never guessed.
package host

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxFile limits what is read from one file, in bytes. cpuinfo of a machine with a thousand CPUs is
// the largest.
const maxFile = 4 << 20

// A tree is a file system's root. Its methods return empty values instead of errors, because a
// missing fact is no reason to stop.
type tree string

func (t tree) path(name string) string { return filepath.Join(string(t), name) }

// text returns a file's content without the blanks around it; empty if it
// cannot be read.
func (t tree) text(name string) string {
	f, err := os.Open(t.path(name))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // nothing was written
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// number returns the number that a file holds.
func (t tree) number(name string) (float64, bool) {
	n, err := strconv.ParseFloat(t.text(name), 64)
	return n, err == nil
}

// exists reports whether there is such a file.
func (t tree) exists(name string) bool {
	_, err := os.Stat(t.path(name))
	return err == nil
}

// each returns the distinct contents of the files that match, sorted.
func (t tree) each(pattern string) []string {
	var texts []string
	for _, name := range t.glob(pattern) {
		if text := t.text(name); text != "" {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// glob returns the files that match, by their names below the root.
func (t tree) glob(pattern string) []string {
	found, err := filepath.Glob(t.path(pattern))
	if err != nil {
		panic(err) // patterns are constants
	}
	for i, name := range found {
		found[i] = strings.TrimPrefix(name, filepath.Clean(string(t)))
	}
	return found
}

// value returns the text after "KEY:" or "KEY=" on the first line that begins with the key, without
// surrounding blanks and quotes.
func value(text, key string) string {
	for line := range strings.Lines(text) {
		k, v, ok := strings.Cut(line, ":")
		if k2, v2, ok2 := strings.Cut(line, "="); ok2 && len(k2) < len(k) {
			k, v, ok = k2, v2, ok2
		}
		if ok && strings.TrimSpace(k) == key {
			return strings.Trim(strings.TrimSpace(v), `"'`)
		}
	}
	return ""
}
