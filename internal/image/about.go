package image

import (
	"bytes"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// ConfigFile is a copy of the image's whole configuration.
func (i *Image) ConfigFile() (*v1.ConfigFile, error) {
	return v1.ParseConfigFile(bytes.NewReader(i.raw))
}

// A Layer is what is known about a layer without reading it.
type Layer struct {
	DiffID      string // digest of its uncompressed archive: layers with the same one are shared
	Stored      int64  // bytes, as stored in the image
	Compression Compression
}

// Layers are the image's layers, the bottom one first.
func (i *Image) Layers() ([]Layer, error) {
	var all []Layer
	for _, l := range i.layers {
		c, err := l.compression()
		if err != nil {
			return nil, err
		}
		all = append(all, Layer{DiffID: l.diffID.String(), Stored: l.size, Compression: c})
	}
	return all, nil
}
