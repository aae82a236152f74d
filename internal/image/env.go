package image

import "strings"

// MergeEnv joins environments, KEY=VALUE. A later value of a variable replaces
// an earlier one in its place: programs differ in which of two they would take.
// It is never nil, which some would take for their own environment.
func MergeEnv(envs ...[]string) []string {
	merged := []string{}
	at := map[string]int{}
	for _, env := range envs {
		for _, kv := range env {
			key, _, _ := strings.Cut(kv, "=")
			if i, ok := at[key]; ok {
				merged[i] = kv
				continue
			}
			at[key] = len(merged)
			merged = append(merged, kv)
		}
	}
	return merged
}
