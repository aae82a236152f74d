package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// A Keeper is the part of a Store for what people do with stored runs: give them names,
// write remarks on them, and remove them. Nothing of that changes what was measured.
// Where there is no run of an ID, errors.Is(err, fs.ErrNotExist).
type Keeper interface {
	// Named returns the ID of the run of that name. errors.Is(err, fs.ErrNotExist) if
	// there is none.
	Named(ctx context.Context, name string) (id string, err error)

	// Rename gives a run that name in place of the one that it has; an empty one takes
	// it away. *NameTaken if another run has it.
	Rename(ctx context.Context, id, name string) error

	// Annotate adds a remark to those of a run. ErrManyRemarks if it has MaxRemarks.
	Annotate(ctx context.Context, id string, r Remark) error

	// Remove removes a run, and everything that is stored of it alone. Writers of it
	// store nothing from then on. It takes runs that cannot be read, too.
	Remove(ctx context.Context, id string) error
}

// A Compacter is a Store that can give the room of removed runs back to the file system.
type Compacter interface {
	// Compact may keep others who write waiting for as long as it takes to copy the store.
	Compact(ctx context.Context) error
}

// A Remark is what somebody has noted about a run.
type Remark struct {
	Time time.Time `json:"time"`
	Text string    `json:"text"` // whatever was typed: 1 to MaxRemark bytes of UTF-8
}

// The bounds of what people write on a run.
const (
	MaxRunName = 64      // bytes
	MaxRemark  = 4 << 10 // bytes
	MaxRemarks = 100     // of one run
)

// NameTaken is the error of giving a run the name of another one.
type NameTaken struct {
	Name string `json:"name"`
	ID   string `json:"run"` // that has it
}

// Error says which run has the name.
func (e *NameTaken) Error() string {
	return fmt.Sprintf("the name %q is taken: run %s has it", e.Name, e.ID)
}

var (
	// ErrRunName is wrapped by ValidRunName's error.
	ErrRunName = errors.New("not a name for a run")
	// ErrManyRemarks is the error of noting more than a store keeps.
	ErrManyRemarks = fmt.Errorf("it has %d notes already, and no more are kept", MaxRemarks)
)

// LastRun is what the newest run is called, whatever it is.
const LastRun = "last"

// ValidRunName reports whether name can be the name of a run: 1 to MaxRunName letters,
// digits, '.', '_' and '-', the first of them a letter; and not LastRun. The IDs that tare
// makes begin with the year, so that neither is taken for the other.
func ValidRunName(name string) error {
	switch {
	case strings.EqualFold(name, LastRun):
		return fmt.Errorf("%w: %q means the newest one", ErrRunName, name)
	case len(name) > MaxRunName:
		return fmt.Errorf("%w: %.80q has %d characters, and at most %d are kept", ErrRunName, name, len(name), MaxRunName)
	case name == "" || !isLetter(name[0]) || strings.ContainsFunc(name, notInName):
		return fmt.Errorf("%w: %.80q", ErrRunName, name)
	}
	return nil
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func notInName(r rune) bool {
	return r >= utf8.RuneSelf || !isLetter(byte(r)) && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
}

// ValidRemark reports what is wrong with a remark, if anything.
func ValidRemark(r Remark) error {
	switch {
	case r.Time.IsZero():
		return errors.New("a note has no time")
	case strings.TrimSpace(r.Text) == "":
		return errors.New("a note has no text")
	case len(r.Text) > MaxRemark:
		return fmt.Errorf("a note of %d bytes, want at most %d", len(r.Text), MaxRemark)
	case !utf8.ValidString(r.Text):
		return errors.New("a note that is not UTF-8")
	}
	return nil
}
