package image

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// WithArgv returns an image with the same files that runs another program by default. It has a
// digest of its own, and no reference names it.
func (i *Image) WithArgv(argv ...string) (*Image, error) {
	config, err := v1.ParseConfigFile(bytes.NewReader(i.raw))
	if err != nil {
		return nil, fmt.Errorf("image %s: configuration: %w", i.ref, err)
	}
	config.Config.Entrypoint, config.Config.Cmd = argv, nil
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("image %s: configuration: %w", i.ref, err)
	}
	other, err := newImage(i.source, raw, slices.Clone(i.layers))
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", i.ref, err)
	}
	other.ref, other.lib, other.packed, other.pinned = i.ref, i.lib, i.packed, i.pinned
	return other, nil
}
