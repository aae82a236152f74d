package bucketbench

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The bounds are those of an experiment, and for the same reasons.
const (
	maxTokens = 20_000
	maxDepth  = 16
)

// A place is where something is in the file.
type place struct {
	line   int // from 1; 0 = nowhere
	column int // from 1, in characters
	width  int // characters to underline
}

// A kind is the kind of a node.
type kind int

const (
	null kind = iota
	scalar
	list
	mapping
)

// String names the kind in a message.
func (k kind) String() string {
	return [...]string{"nothing", "a single value", "a list", "a mapping"}[k]
}

// A node is a piece of YAML with its place. Scalars are kept as written.
type node struct {
	at     place
	kind   kind
	text   string  // of a scalar
	items  []node  // of a list
	fields []field // of a mapping, in the order of the file
}

// A field is one key of a mapping and its value.
type field struct {
	name  string
	at    place
	value node
}

// parse turns a file into a node. What is wrong with it is noted.
func (r *reader) parse(data []byte) node {
	text, ok := r.text(data)
	if !ok {
		return node{}
	}
	file, err := r.parseFile(text)
	if err != nil {
		r.syntax(err)
	}
	if file == nil {
		return node{}
	}
	var bodies []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.DirectiveType {
			bodies = append(bodies, d.Body)
		}
	}
	if len(bodies) == 0 {
		r.fail(place{}, "the file is empty", "")
		return node{}
	}
	if len(bodies) > 1 {
		r.fail(placeOf(bodies[1]), "a second YAML document begins here", "bucketbench reads the first one alone: remove the others")
	}
	return r.node(bodies[0], 0)
}

// parseFile calls the YAML parser, unless the file is too large for it. A
// panic of the parser is one more way to say that this is not YAML.
func (r *reader) parseFile(text string) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			file, err = nil, fmt.Errorf("this is not YAML: %v", p)
		}
	}()
	tokens := lexer.Tokenize(text)
	if len(tokens) > maxTokens {
		r.fail(place{}, fmt.Sprintf("the file has %d YAML tokens; at most %d are read", len(tokens), maxTokens), "")
		return nil, nil
	}
	if t := deepBracket(tokens); t != nil {
		r.tooDeep(tokenPlace(t))
		return nil, nil
	}
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// deepBracket returns the bracket that nests too deeply, or nil. The parser
// calls itself for each, so they are counted before.
func deepBracket(tokens token.Tokens) *token.Token {
	depth := 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		}
		if depth > maxDepth {
			return t
		}
	}
	return nil
}

func (r *reader) tooDeep(at place) {
	r.fail(at, fmt.Sprintf("nested deeper than %d levels", maxDepth), "")
}

// syntax notes what the YAML parser complains about.
func (r *reader) syntax(err error) {
	var at place
	message := err.Error()
	if e, ok := errors.AsType[yaml.Error](err); ok {
		message, at = e.GetMessage(), tokenPlace(e.GetToken())
		at.width = 1
	}
	hint := "look near here for a wrong indentation, a colon without a space after it, or a quote or bracket that is not closed"
	line := r.line(at.line)
	if indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]; strings.Contains(indent, "\t") {
		message, hint = "a tab cannot indent YAML", "use spaces"
		at.column = strings.IndexByte(line, '\t') + 1
	}
	r.fail(at, message, hint)
}

// node turns the parser's tree into nodes. Aliases are refused: they let a
// small file stand for an enormous one.
func (r *reader) node(n ast.Node, depth int) node {
	out := node{at: placeOf(n)}
	if depth > maxDepth {
		r.tooDeep(out.at)
		return out
	}
	switch n := n.(type) {
	case nil, *ast.NullNode:
	case *ast.MappingNode:
		out.kind, out.fields = mapping, r.fields(n.Values, depth)
	case *ast.MappingValueNode:
		out.kind, out.fields = mapping, r.fields([]*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out.kind = list
		for _, item := range n.Values {
			out.items = append(out.items, r.node(item, depth+1))
		}
	case *ast.LiteralNode:
		out.kind, out.text = scalar, n.Value.Value
	case *ast.StringNode:
		out.kind, out.text = scalar, n.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = scalar, n.GetToken().Value
	default:
		r.fail(out.at, fmt.Sprintf("YAML %s is not supported here", strings.ToLower(n.Type().String())), "write the value out; quote it if it begins with &, * or !")
	}
	return out
}

// fields converts the keys of a mapping, each of which may be there once.
func (r *reader) fields(values []*ast.MappingValueNode, depth int) []field {
	var fields []field
	first := map[string]int{}
	for _, v := range values {
		at := placeOf(v.Key)
		name := v.Key.GetToken().Value
		if line, ok := first[name]; ok {
			r.fail(at, fmt.Sprintf("key %s is given twice", quote(name)), fmt.Sprintf("it is on line %d already", line))
			continue
		}
		first[name] = at.line
		fields = append(fields, field{name: name, at: at, value: r.node(v.Value, depth+1)})
	}
	return fields
}

// placeOf returns where a node is. A block mapping begins at its first key,
// not at the colon that the parser names.
func placeOf(n ast.Node) place {
	switch n := n.(type) {
	case nil:
		return place{}
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return placeOf(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return placeOf(n.Key)
	}
	return tokenPlace(n.GetToken())
}

// tokenPlace returns where a token is, and how wide where it is on one line.
func tokenPlace(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{}
	}
	text := strings.TrimSpace(t.Origin)
	if text == "" || strings.Contains(text, "\n") {
		text = "^"
	}
	return place{line: t.Position.Line, column: max(t.Position.Column, 1), width: utf8.RuneCountInString(text)}
}
