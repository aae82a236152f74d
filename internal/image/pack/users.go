package pack

import (
	"cmp"
	"fmt"
	"strings"
)

// The accounts of every image.
const (
	baseUsers  = "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"
	baseGroups = "root:x:0:\nnogroup:x:65534:\n"
)

// A User is a user of a recipe, with a group of the same name. Recipes never share a user's name,
// and never use those above.
type User struct {
	Name     string
	UID, GID int
	Home     string // empty = /
}

// passwd is the text of an image's passwd(5), group that of its group(5).
func passwd(users []User) string {
	return accounts(baseUsers, users, func(u User) string {
		return fmt.Sprintf("%s:x:%d:%d::%s:/sbin/nologin\n", u.Name, u.UID, u.GID, cmp.Or(u.Home, "/"))
	})
}

func group(users []User) string {
	return accounts(baseGroups, users, func(u User) string { return fmt.Sprintf("%s:x:%d:\n", u.Name, u.GID) })
}

// accounts adds a line for each user, only once if two programs have the same recipe.
func accounts(base string, users []User, line func(User) string) string {
	for _, u := range users {
		if l := line(u); !strings.Contains(base, l) {
			base += l
		}
	}
	return base
}
