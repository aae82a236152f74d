// Package yamldoc reads a file of YAML as nodes that know their places, and
// tells what is wrong with it as a compiler does: with the line and a caret.
//
// It reads the part of YAML that files written by hand need: mappings, lists
// and words. Files are bounded in size and depth, and there are no aliases: a
// small file costs little, whatever is in it. A Writer writes such a file.
package yamldoc

// MaxBytes is the largest file that Read takes: far more than any file
// written by hand needs. The YAML lexer's time grows with the square of some
// files' length; at this one the worst that were found cost less than a second.
const MaxBytes = 64 << 10

const (
	maxTokens = 20_000 // the YAML parser's time grows with their square, too
	maxDepth  = 16     // of nesting
)

// Hints say what would be right where a file is none of its kind. Each may be
// empty.
type Hints struct {
	TooLarge          string // for a file that is larger than MaxBytes
	Empty             string // for a file without a document
	MultipleDocuments string // for a file with more than one
}

// A Kind is the kind of a node.
type Kind int

// The kinds of nodes.
const (
	Null Kind = iota
	Scalar
	List
	Mapping
)

// String names the kind in a message.
func (k Kind) String() string {
	return [...]string{"nothing", "a single value", "a list", "a mapping"}[k]
}

// A Node is a piece of YAML with its place. Scalars are kept as they were
// written; the key that they belong to decides what they are.
type Node struct {
	At     Place
	Kind   Kind
	Text   string  // of a scalar, without quotes
	Items  []Node  // of a list
	Fields []Field // of a mapping, in the order of the file, with names that differ
}

// A Field is one key of a mapping and its value.
type Field struct {
	Name  string
	At    Place // of the key
	Value Node
}

// Field returns the field of a mapping that has the given name.
func (n Node) Field(name string) (Field, bool) {
	for _, f := range n.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// A Place is where something is: in the file, or a flag of the command line
// that stands for a part of it. The zero Place is the file as a whole.
type Place struct {
	Flag   string // such as "--blocks"; then there is no line
	Line   int    // from 1
	Column int    // from 1, in characters
	Width  int    // characters to underline; at least 1
}

// A Source is the text of a file, kept to show its lines in errors.
type Source struct {
	Name  string // of the file
	lines []string
}

// line returns the text of a line, and whether there is one.
func (s Source) line(n int) (string, bool) {
	if n < 1 || n > len(s.lines) {
		return "", false
	}
	return s.lines[n-1], true
}

// Read returns the one document of a file. name is the file's, for errors; the
// Source is for Problems that are found later. The error is an *Error with
// everything that makes the file no such document. The Node is then what could
// be read of it.
func Read(name string, data []byte, h Hints) (Node, Source, error) {
	r := &reader{Problems: Problems{Source: Source{Name: name}}, hints: h}
	root := r.read(data)
	return root, r.Source, r.Err()
}
