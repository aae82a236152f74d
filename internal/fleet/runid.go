package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// maxSlug is how long the part of a run's ID may be that tells the node: an ID has 64 bytes at most, of which the
// fleet's takes 20 and the pass 3.
const maxSlug = 40

// RunID is the ID of a node's run, the same whenever it is asked for: so a run that is imported twice is known. It
// contains the node's name, or a hash of it where the name cannot be a part of an ID.
func RunID(fleet string, pass int, node string) string {
	slug := node
	if slug == "" || len(slug) > maxSlug || strings.Trim(slug, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		sum := sha256.Sum256([]byte(node))
		slug = hex.EncodeToString(sum[:8])
	}
	return fleet + "-" + strconv.Itoa(pass) + "-" + slug
}
