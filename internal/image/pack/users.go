package pack

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// The accounts of every image.
const (
	baseUsers  = "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"
	baseGroups = "root:x:0:\nnogroup:x:65534:\n"
)

// maxAccounts bounds what is read of the host's accounts.
const maxAccounts = 4 << 20

// A User is one of an image.
type User struct {
	Name     string
	UID, GID int
	Home     string // empty = /

	groups []group
}

// A group is one that a user is in: its name and number.
type group struct {
	name string
	gid  int
}

// accounts are the users of an image, in the order in which they were added.
type accounts struct{ users []User }

// add adds a user, in the place of one of the same name.
func (a *accounts) add(u User) {
	if u.Home == "" {
		u.Home = "/"
	}
	if i := slices.IndexFunc(a.users, func(o User) bool { return o.Name == u.Name }); i >= 0 {
		a.users[i] = u
		return
	}
	a.users = append(a.users, u)
}

// passwd and group are the files.
func (a *accounts) passwd() string {
	var b strings.Builder
	for _, line := range strings.SplitAfter(baseUsers, "\n") {
		name, _, _ := strings.Cut(line, ":")
		if !slices.ContainsFunc(a.users, func(u User) bool { return u.Name == name }) {
			b.WriteString(line)
		}
	}
	for _, u := range a.users {
		fmt.Fprintf(&b, "%s:x:%d:%d::%s:/sbin/nologin\n", u.Name, u.UID, u.GID, u.Home)
	}
	return b.String()
}

func (a *accounts) group() string {
	type line struct {
		group
		members []string
	}
	lines := []line{{group: group{"root", 0}}, {group: group{"nogroup", 65534}}}
	for _, u := range a.users {
		groups := u.groups
		if len(groups) == 0 {
			groups = []group{{u.Name, u.GID}}
		}
		for _, g := range groups {
			i := slices.IndexFunc(lines, func(l line) bool { return l.group == g })
			if i < 0 {
				i, lines = len(lines), append(lines, line{group: g})
			}
			if g.gid != u.GID {
				lines[i].members = append(lines[i].members, u.Name)
			}
		}
	}
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%s:x:%d:%s\n", l.name, l.gid, strings.Join(l.members, ","))
	}
	return b.String()
}

// users takes the users that were asked for from the host's files, and writes
// the image's. A home that is a directory of their own is made.
func (p *packer) users() error {
	for _, name := range p.request.Users {
		u, err := p.tree.user(name)
		if err != nil {
			return err
		}
		p.accounts.add(u)
		if u.Home == "/" || u.Home == "/nonexistent" {
			continue
		}
		home := directory(u.Home)
		home.UID, home.GID = u.UID, u.GID
		if err := p.tree.put(home); err != nil {
			return fmt.Errorf("home of user %s: %w", name, err)
		}
	}
	for _, e := range []Entry{text("/etc/passwd", p.accounts.passwd()), text("/etc/group", p.accounts.group())} {
		p.tree.set(e)
	}
	return nil
}

// user reads a user, and the groups that it is in.
func (t *tree) user(name string) (User, error) {
	users, err := t.readText("/etc/passwd", maxAccounts)
	if err != nil {
		return User{}, err
	}
	u, ok := findUser(users, name)
	if !ok {
		return User{}, fmt.Errorf("%w: user %q: %s has none of this name: name one that it has", bench.ErrUnsupported, name, t.outside("/etc/passwd"))
	}
	groups, err := t.readText("/etc/group", maxAccounts)
	if err != nil {
		return User{}, err
	}
	u.groups = findGroups(groups, u)
	return u, nil
}

// readText reads a file of the host.
func (t *tree) readText(name string, most int64) (string, error) {
	w, err := t.find(name)
	if err != nil {
		return "", err
	}
	raw, err := w.read(most + 1)
	if err == nil && int64(len(raw)) > most {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("longer than %d bytes", most)}
	}
	return string(raw), err
}

// maxID is the largest number of a user or group. The one above it means none.
const maxID = 1<<32 - 2

// findUser finds a user in the text of passwd(5).
func findUser(text, name string) (User, bool) {
	for line := range strings.SplitSeq(text, "\n") {
		f := strings.Split(line, ":")
		if len(f) != 7 || f[0] != name || name == "" {
			continue
		}
		uid, err1 := strconv.ParseUint(f[2], 10, 32)
		gid, err2 := strconv.ParseUint(f[3], 10, 32)
		if err1 != nil || err2 != nil || uid > maxID || gid > maxID {
			continue
		}
		home := f[5]
		if !path.IsAbs(home) || path.Clean(home) != home {
			home = "/"
		}
		return User{Name: name, UID: int(uid), GID: int(gid), Home: home}, true
	}
	return User{}, false
}

// findGroups finds the groups that a user is in, in the text of group(5). The
// user's own comes first; one without a name gets the user's.
func findGroups(text string, u User) []group {
	all := []group{{u.Name, u.GID}}
	for line := range strings.SplitSeq(text, "\n") {
		f := strings.Split(line, ":")
		if len(f) != 4 || f[0] == "" {
			continue
		}
		gid, err := strconv.ParseUint(f[2], 10, 32)
		switch {
		case err != nil || gid > maxID:
		case int(gid) == u.GID:
			all[0].name = f[0]
		case slices.Contains(strings.Split(f[3], ","), u.Name):
			if g := (group{f[0], int(gid)}); !slices.Contains(all, g) {
				all = append(all, g)
			}
		}
	}
	return all
}
