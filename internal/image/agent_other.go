//go:build !amd64 && !arm64

package image

import "embed"

// There is no agent for other architectures.
var agentFiles embed.FS
