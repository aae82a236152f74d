package report

import "fmt"

// lookParts says that a run was looked at more than once, and what that costs; nil where it was not.
func lookParts(r *Run) [][]string {
	if r.Looks < 2 {
		return nil
	}
	const text = "looked at %d times: each look raises the number of blocks that a verdict needs"
	return [][]string{{fmt.Sprintf(text, r.Looks)}}
}
