// Package registry serves images on loopback, as a registry does, to be pulled by
// the engines of this host: read only, without TLS, by the OCI distribution
// specification (GET and HEAD of manifests and blobs).
//
// An image is kept ready in files: its layers are compressed once, always to the
// same bytes. Each pull gets a Content of its own, which differs from the image
// by one small file in each layer, so that no engine has any part of it yet:
//
//	stock, err := registry.Keep(ctx, dir, image, registry.Fill{Layers: 4, Size: 16 << 20})
//	r, err := registry.Listen(registry.Options{})
//	content, err := stock.Content()
//	offer := r.Offer("tare-run/docker", content, clock)
//	// an engine pulls offer.Reference()
//	traffic := offer.Withdraw()
//
// While it serves, a file goes from the page cache to the socket by sendfile, and
// nothing is hashed or compressed.
package registry
