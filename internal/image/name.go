package image

import (
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// NamedElsewhere advises how to name an image that an engine does not have in its store under ref.
// With a single colon, "docker:X" is a tag of the image called docker.
func NamedElsewhere(ref string) string {
	if rest, ok := strings.CutPrefix(ref, "docker:"); ok {
		return fmt.Sprintf("write %s%s, with two slashes, if you mean %s in a registry", registryScheme, rest, rest)
	}
	if meant, ok := Intended(ref); ok {
		return fmt.Sprintf("write %s if you mean that, or %s%s if it is in a registry", meant, registryScheme, ref)
	}
	return fmt.Sprintf("write %s%s for an image in a registry, oci:DIR or tar:FILE for one in a file", registryScheme,
		ref)
}

// Intended corrects a typing error before the colon of ref, such as "host:nginx" for "hots:nginx". It
// returns false if the part before the colon is not similar to a kind of image. Use it only for
// hints, because an engine may have an image with such a name.
func Intended(ref string) (string, bool) {
	kind, rest, _ := strings.Cut(ref, ":")
	if rest == "" {
		return "", false
	}
	for _, known := range []string{hostScheme, "tar", "oci", "docker"} {
		switch {
		case kind == known:
			return "", false
		case !isTypo(strings.ToLower(kind), known):
		case known == "docker":
			return registryScheme + strings.TrimPrefix(rest, "//"), true
		default:
			return known + ":" + rest, true
		}
	}
	return "", false
}

// isTypo reports whether typed differs from meant by one letter (added, missing or changed) or by
// two swapped letters.
func isTypo(typed, meant string) bool {
	for typed != "" && meant != "" && typed[0] == meant[0] {
		typed, meant = typed[1:], meant[1:]
	}
	for typed != "" && meant != "" && typed[len(typed)-1] == meant[len(meant)-1] {
		typed, meant = typed[:len(typed)-1], meant[:len(meant)-1]
	}
	swapped := len(typed) == 2 && len(meant) == 2 && typed[0] == meant[1] && typed[1] == meant[0]
	return swapped || len(typed) <= 1 && len(meant) <= 1
}

// FullName returns the full form of an image's name in an engine's own store, which every engine
// keeps unchanged: "nginx" is "docker.io/library/nginx:latest".
func FullName(tag string) (string, error) {
	t, err := name.NewTag(tag)
	if err != nil {
		return "", fmt.Errorf("image name %q: %w", tag, err)
	}
	// No engine uses the library's name for Docker's registry.
	return strings.Replace(t.Name(), name.DefaultRegistry+"/", "docker.io/", 1), nil
}
