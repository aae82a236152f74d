// Package registry is a registry on loopback, from which the engines of this host pull images:
// read-only, without TLS, by the OCI distribution specification (GET and HEAD of manifests and
// blobs).
//
// An image is prepared in files: its layers are compressed once, always to the same bytes. Each
// pull gets a Content of its own, which differs from the image by one small file in each layer, so
// that no engine has any part of it:
//
//	prepared image, err := registry.Prepare(ctx, dir, image, registry.Padding{Layers: 4, Size: 16 << 20})
//	r, err := registry.Listen(registry.Options{})
//	content, err := prepared image.Content()
//	offer := r.Offer("tare-run/docker", content, clock)
//	// an engine pulls offer.Reference()
//	traffic := offer.Withdraw()
//
// The registry sends files from the page cache by sendfile, and hashes or compresses nothing while
// it serves.
package registry
