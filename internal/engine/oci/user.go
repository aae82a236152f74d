package oci

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// userOf finds the user that an image asks to run as: "", "USER" or "USER:GROUP", each a number or
// a name in the image's own /etc/passwd and /etc/group.
func userOf(base, user string) (specs.User, error) {
	if user == "" {
		return specs.User{}, nil
	}
	name, group, hasGroup := strings.Cut(user, ":")
	uid, gid, err := lookUp(base, "etc/passwd", name)
	if err != nil {
		return specs.User{}, fmt.Errorf("user %q, which the image asks for: %w", user, err)
	}
	if hasGroup {
		if gid, _, err = lookUp(base, "etc/group", group); err != nil {
			return specs.User{}, fmt.Errorf("group %q, which the image asks for: %w", group, err)
		}
	}
	return specs.User{UID: uid, GID: gid}, nil
}

// lookUp finds a name or a number in a file with lines NAME:…:NUMBER:NUMBER and returns the two
// numbers. If wanted is a number that is not in the file, the second number is 0.
func lookUp(base, file, wanted string) (first, second uint32, err error) {
	number, notNumber := strconv.ParseUint(wanted, 10, 31)
	f, err := os.OpenInRoot(base, file) // a link in the image cannot lead out of it
	if err != nil {
		if notNumber == nil {
			return uint32(number), 0, nil
		}
		return 0, 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	lines := bufio.NewScanner(io.LimitReader(f, 1<<20))
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 3 || fields[0] != wanted && fields[2] != wanted {
			continue
		}
		if first, err = identifier(fields[2]); err == nil && len(fields) > 4 {
			second, err = identifier(fields[3])
		}
		return first, second, err
	}
	if notNumber == nil {
		return uint32(number), 0, lines.Err()
	}
	return 0, 0, fmt.Errorf("/%s in the image has no entry %q", file, wanted)
}

func identifier(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	return uint32(n), err
}
