package image

import (
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// NamedElsewhere says how to name the image that an engine lacks in its own store
// under ref. A single colon after "docker" makes a tag of the image called docker.
func NamedElsewhere(ref string) string {
	if rest, ok := strings.CutPrefix(ref, "docker:"); ok {
		return fmt.Sprintf("name it %s%s, with two slashes, if %s of a registry is meant", registryScheme, rest, rest)
	}
	if meant, ok := Meant(ref); ok {
		return fmt.Sprintf("name it %s if that is meant, or %s%s if it is in a registry", meant, registryScheme, ref)
	}
	return fmt.Sprintf("name it %s%s, or one in a file as oci:DIR or tar:FILE", registryScheme, ref)
}

// Meant is ref as it reads without a slip before its colon, such as "host:nginx" for
// "hots:nginx"; false if what is there is no near miss of a kind of image. An engine
// may have an image of such a name all the same: it is for a hint only.
func Meant(ref string) (string, bool) {
	kind, rest, _ := strings.Cut(ref, ":")
	if rest == "" {
		return "", false
	}
	for _, known := range []string{hostScheme, "tar", "oci", "docker"} {
		switch {
		case kind == known:
			return "", false
		case !isSlip(strings.ToLower(kind), known):
		case known == "docker":
			return registryScheme + strings.TrimPrefix(rest, "//"), true
		default:
			return known + ":" + rest, true
		}
	}
	return "", false
}

// isSlip reports whether one letter too many, missing or another, or two that are
// swapped, are all that makes typed another word than meant.
func isSlip(typed, meant string) bool {
	for typed != "" && meant != "" && typed[0] == meant[0] {
		typed, meant = typed[1:], meant[1:]
	}
	for typed != "" && meant != "" && typed[len(typed)-1] == meant[len(meant)-1] {
		typed, meant = typed[:len(typed)-1], meant[:len(meant)-1]
	}
	swapped := len(typed) == 2 && len(meant) == 2 && typed[0] == meant[1] && typed[1] == meant[0]
	return swapped || len(typed) <= 1 && len(meant) <= 1
}

// FullName returns a name and tag for an image in an engine's own store in the
// form that every engine keeps as it is: "nginx" is "docker.io/library/nginx:latest".
func FullName(tag string) (string, error) {
	t, err := name.NewTag(tag)
	if err != nil {
		return "", fmt.Errorf("image name %q: %w", tag, err)
	}
	// How the library calls Docker's registry, no engine does.
	return strings.Replace(t.Name(), name.DefaultRegistry+"/", "docker.io/", 1), nil
}
