package image

import (
	"context"
	"fmt"
	"io"
)

// EachLayer calls use with the uncompressed archive of every layer, the bottom one first. The
// content is verified only when EachLayer returns without an error. All layers together may not
// exceed the Library's limit of bytes.
func (i *Image) EachLayer(ctx context.Context, use func(archive io.Reader) error) error {
	w := &walker{limits: i.lib.limits}
	for _, l := range i.layers {
		if err := w.readLayer(ctx, l, use); err != nil {
			return fmt.Errorf("image %s: layer %s: %w", i.ref, l.diffID, err)
		}
	}
	return nil
}

func (w *walker) readLayer(ctx context.Context, l layer, use func(io.Reader) error) error {
	r, err := l.uncompressed()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // only read from
	bounded := w.limitedReader(ctx, r)
	if err := use(bounded); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, bounded) // the digest covers the whole file
	return err
}
