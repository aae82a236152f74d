package oci

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/moby/sys/user"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// userOf finds the user that an image asks to run as: "", "USER" or "USER:GROUP", each a number or
// a name in the image's own /etc/passwd and /etc/group.
func userOf(base, wanted string) (specs.User, error) {
	if wanted == "" {
		return specs.User{}, nil
	}
	found, err := user.GetExecUser(wanted, nil, text(base, "etc/passwd"), text(base, "etc/group"))
	if err != nil {
		return specs.User{}, fmt.Errorf("user %q, which the image asks for: %w", wanted, err)
	}
	u := specs.User{UID: uint32(found.Uid), GID: uint32(found.Gid)}
	for _, id := range found.Sgids {
		u.AdditionalGids = append(u.AdditionalGids, uint32(id))
	}
	return u, nil
}

// text returns a file of the image; empty if the image does not have it.
func text(base, file string) io.Reader {
	f, err := os.OpenInRoot(base, file) // a link in the image cannot lead out of it
	if err != nil {
		return strings.NewReader("")
	}
	defer func() { _ = f.Close() }() // it was only read
	b, _ := io.ReadAll(io.LimitReader(f, 1<<20))
	return strings.NewReader(string(b))
}
