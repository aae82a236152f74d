package report

import "fmt"

// lookParts says that a run was looked at more than once; nil where it was not.
func lookParts(r *Run) [][]string {
	if r.Looks < 2 {
		return nil
	}
	return [][]string{{fmt.Sprintf("looked at %d times: verdicts allow for that", r.Looks)}}
}
