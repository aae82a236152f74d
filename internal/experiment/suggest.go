package experiment

import (
	"fmt"
	"strings"
)

// mostKnown is how many known words an error lists.
const mostKnown = 30

// suggest says what an unknown word may have meant: the nearest known one or, if none
// is near, all of them after their kind, such as "engines: runc, crun".
func suggest(word string, what string, known []string) string {
	if best, ok := Nearest(word, known); ok {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(known) == 0 {
		return ""
	}
	if len(known) > mostKnown {
		return fmt.Sprintf("%s: %s and %d more", what, strings.Join(known[:mostKnown], ", "), len(known)-mostKnown)
	}
	return fmt.Sprintf("%s: %s", what, strings.Join(known, ", "))
}

// suggestListed is suggest for words of which there may be too many, with the command that lists
// all of them.
func suggestListed(word, what string, known []string, command string) string {
	hint := suggest(word, what, known)
	if _, near := Nearest(word, known); !near && len(known) > mostKnown {
		hint += fmt.Sprintf("; '%s' lists all", command)
	}
	return hint
}

// Nearest returns the known word within a third of the word's length in
// edits; the first of several.
func Nearest(word string, known []string) (string, bool) {
	if len(word) > 64 {
		return "", false
	}
	best, distance := "", max(1, len(word)/3)+1
	for _, k := range known {
		if d := edits(strings.ToLower(word), k); d < distance {
			best, distance = k, d
		}
	}
	return best, best != ""
}

// edits counts the insertions, deletions, replacements and swaps of
// neighbours that make b out of a (optimal string alignment).
func edits(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
