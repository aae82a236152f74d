package image

import "embed"

// The directory always contains a README, so that this compiles before the agent is built.
//
//go:embed agentbin/arm64
var agentFiles embed.FS
