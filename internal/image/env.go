package image

import "strings"

// MergeEnv joins environments, KEY=VALUE. A later value of a variable replaces an earlier one in
// its place, because programs differ in which of two values they use. The result is never nil,
// which some functions take as "this process's environment".
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
