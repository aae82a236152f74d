package experiment

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

// A node is a piece of YAML with its place: the small part of YAML that an
// experiment may use. Scalars are kept as they were written; the key that
// they belong to decides what they are.
type node struct {
	at     span
	kind   kind
	text   string  // of a scalar
	items  []node  // of a list
	fields []field // of a mapping, in the order of the file
}

// A field is one key of a mapping and its value.
type field struct {
	name  string
	at    span
	value node
}

// parseYAML turns text into a node. A problem is noted with the reader.
func parseYAML(data []byte, r *reader) node {
	file, err := parseFile(data, r)
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
		r.fail(span{}, "the file is empty", "`tare plan quick --yaml` prints an experiment to start from")
		return node{}
	}
	if len(bodies) > 1 {
		r.fail(place(bodies[1]), "a second YAML document begins here", "put each experiment into a file of its own")
	}
	return r.convert(bodies[0], 0)
}

// parseFile calls the YAML parser, unless the file is too large for it: then
// the problem is noted and the file is nil. A file that makes the parser panic
// is refused like any other broken file: what users write must not crash tare.
func parseFile(data []byte, r *reader) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			file, err = nil, fmt.Errorf("this is not YAML: %v", p)
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if len(tokens) > maxTokens {
		r.fail(span{}, fmt.Sprintf("the file has %d YAML tokens; at most %d are read", len(tokens), maxTokens), "")
		return nil, nil
	}
	if t := deepBracket(tokens); t != nil {
		r.tooDeep(tokenSpan(t))
		return nil, nil
	}
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// deepBracket returns the bracket that nests too deeply, or nil. The parser calls
// itself for each, so they are counted before.
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

func (r *reader) tooDeep(at span) {
	r.fail(at, fmt.Sprintf("nested deeper than %d levels", maxDepth), "")
}

// syntax notes what the YAML parser complains about.
func (r *reader) syntax(err error) {
	var at span
	message := err.Error()
	if e, ok := errors.AsType[yaml.Error](err); ok {
		message = e.GetMessage()
		at = tokenSpan(e.GetToken())
		at.width = 1
	}
	hint := "look near here for a wrong indentation, a colon without a space after it, or a quote or bracket that is not closed"
	if line, _ := r.src.line(at.line); strings.Contains(indent(line), "\t") {
		message, hint = "a tab cannot indent YAML", "use spaces"
		at.column = strings.IndexByte(line, '\t') + 1
	}
	r.fail(at, message, hint)
}

// indent returns the white space at the beginning of a line.
func indent(line string) string {
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// convert turns the parser's tree into nodes and refuses what an experiment
// may not contain.
func (r *reader) convert(n ast.Node, depth int) node {
	out := node{at: place(n)}
	if depth > maxDepth {
		r.tooDeep(out.at)
		return out
	}
	switch n := n.(type) {
	case nil, *ast.NullNode:
	case *ast.MappingNode:
		out.kind = mapping
		out.fields = r.convertFields(n.Values, depth)
	case *ast.MappingValueNode:
		out.kind = mapping
		out.fields = r.convertFields([]*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out.kind = list
		for _, item := range n.Values {
			out.items = append(out.items, r.convert(item, depth+1))
		}
	case *ast.LiteralNode:
		out.kind, out.text = scalar, n.Value.Value
	case *ast.StringNode:
		out.kind, out.text = scalar, n.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = scalar, n.GetToken().Value
	case *ast.AnchorNode, *ast.AliasNode:
		// Aliases let a small file stand for an enormous one.
		r.fail(out.at, "anchors and aliases (& and *) are not supported", "write the value out; quote it if it begins with & or *")
	case *ast.TagNode:
		r.fail(out.at, "tags (!) are not supported", "leave it out; quote the value if it begins with !")
	default:
		r.fail(out.at, fmt.Sprintf("YAML %s is not supported here", strings.ToLower(n.Type().String())), "")
	}
	return out
}

// convertFields converts the keys of a mapping, each of which may be there once.
func (r *reader) convertFields(values []*ast.MappingValueNode, depth int) []field {
	var fields []field
	first := map[string]int{}
	for _, v := range values {
		at := place(v.Key)
		name, ok := keyText(v.Key)
		if !ok {
			r.fail(at, "this cannot be a key", "a key is a plain word")
			continue
		}
		if line, ok := first[name]; ok {
			r.fail(at, fmt.Sprintf("key %s is given twice", quote(name)), fmt.Sprintf("it is on line %d already", line))
			continue
		}
		first[name] = at.line
		fields = append(fields, field{name: name, at: at, value: r.convert(v.Value, depth+1)})
	}
	return fields
}

// keyText returns the text of a key that is a plain or quoted scalar.
func keyText(k ast.MapKeyNode) (string, bool) {
	switch k := k.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return k.GetToken().Value, true
	default:
		return "", false
	}
}

// place returns where a node is. A block mapping begins at its first key, not
// at the colon that the parser names.
func place(n ast.Node) span {
	switch n := n.(type) {
	case nil:
		return span{}
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return place(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return place(n.Key)
	}
	return tokenSpan(n.GetToken())
}

// tokenSpan returns where a token is, and how wide where it is on one line.
func tokenSpan(t *token.Token) span {
	if t == nil || t.Position == nil {
		return span{}
	}
	text := strings.TrimSpace(t.Origin)
	if text == "" || strings.Contains(text, "\n") {
		text = "^"
	}
	return span{line: t.Position.Line, column: max(t.Position.Column, 1), width: utf8.RuneCountInString(text)}
}
