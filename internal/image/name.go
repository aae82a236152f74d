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
	return fmt.Sprintf("name it %s%s, or one in a file as oci:DIR or tar:FILE", registryScheme, ref)
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
