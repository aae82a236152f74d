package image

import (
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

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
