package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// RemoveAll calls remove until it reports that nothing was there. After a build that was cut short it
// waits first, because an engine takes a moment to end the step that was at work.
func RemoveAll(ctx context.Context, cut bool, remove func() (some bool, err error)) error {
	const settle, most = time.Second, 20
	if cut {
		if err := bench.Sleep(ctx, settle); err != nil {
			return err
		}
	}
	for range most {
		if some, err := remove(); err != nil || !some {
			return err
		}
	}
	return errors.New("what the build has made appears again and again")
}

// Remaining are images to remove, each after those that were made of it.
type Remaining struct {
	ids     []string
	created map[string]int64
}

// Add adds an image that was made at that time.
func (r *Remaining) Add(id string, created int64) {
	if r.created == nil {
		r.created = map[string]int64{}
	}
	if _, ok := r.created[id]; !ok {
		r.ids = append(r.ids, id)
	}
	r.created[id] = created
}

// Remove removes the newest images first. It repeats what fails as long as something else succeeds,
// because times in seconds do not tell the order of images that were made within one.
func (r *Remaining) Remove(remove func(id string) error) error {
	slices.SortStableFunc(r.ids, func(a, b string) int { return cmp.Compare(r.created[b], r.created[a]) })
	for len(r.ids) > 0 {
		var failed []string
		var last error
		for _, id := range r.ids {
			if err := remove(id); err != nil {
				failed, last = append(failed, id), err
			}
		}
		if len(failed) == len(r.ids) {
			return last
		}
		r.ids = failed
	}
	return nil
}

// A Version is that of a program: two numbers, and what it writes.
type Version struct {
	major, minor int
	text         string
}

var version = regexp.MustCompile(`^v?([0-9]{1,6})\.([0-9]{1,6})[^\s,]*`)

// VersionIn finds a version right behind some word in what a program says; the zero value if there is
// none.
func VersionIn(text, behind string) Version {
	_, rest, _ := strings.Cut(text, behind)
	m := version.FindStringSubmatch(rest)
	if m == nil {
		return Version{}
	}
	major, err1 := strconv.Atoi(m[1])
	minor, err2 := strconv.Atoi(m[2])
	if err1 != nil || err2 != nil {
		return Version{}
	}
	return Version{major, minor, strings.TrimPrefix(m[0], "v")}
}

// Before reports whether v is older.
func (v Version) Before(major, minor int) bool {
	return v.major < major || v.major == major && v.minor < minor
}

// String is the version as the program writes it.
func (v Version) String() string { return fmt.Sprintf("%.40s", v.text) }
