package yamldoc

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// document turns the one document of a file into nodes. Where there are more,
// it is the first.
func (r *reader) document(file *ast.File) Node {
	var bodies []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.DirectiveType {
			bodies = append(bodies, d.Body)
		}
	}
	if len(bodies) == 0 {
		r.Fail(Place{}, "the file is empty", r.hints.Empty)
		return Node{}
	}
	if len(bodies) > 1 {
		r.Fail(placeOf(bodies[1]), "a second YAML document begins here", r.hints.MultipleDocuments)
	}
	return r.node(bodies[0], 0)
}

// node turns the parser's tree into nodes. Anchors, aliases and tags are none:
// aliases let a small file stand for an enormous one.
func (r *reader) node(n ast.Node, depth int) Node {
	out := Node{At: placeOf(n)}
	if depth > maxDepth {
		r.tooDeep(out.At)
		return out
	}
	switch n := n.(type) {
	case nil, *ast.NullNode:
	case *ast.MappingNode:
		out.Kind, out.Fields = Mapping, r.fields(n.Values, depth)
	case *ast.MappingValueNode:
		out.Kind, out.Fields = Mapping, r.fields([]*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out.Kind = List
		for _, item := range n.Values {
			out.Items = append(out.Items, r.node(item, depth+1))
		}
	case *ast.LiteralNode:
		out.Kind, out.Text = Scalar, n.Value.Value
	case *ast.StringNode:
		out.Kind, out.Text = Scalar, n.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.Kind, out.Text = Scalar, n.GetToken().Value
	default:
		message, hint := unsupported(strings.ToLower(n.Type().String()))
		r.Fail(out.At, message, hint)
	}
	return out
}

// unsupported says what is wrong with YAML that no node stands for.
func unsupported(what string) (message, hint string) {
	switch what {
	case "anchor", "alias":
		return "anchors and aliases (& and *) are not supported", "write the whole value; quote it if it begins with & or *"
	case "tag":
		return "tags (!) are not supported", "leave out the tag; quote the value if it begins with !"
	}
	return fmt.Sprintf("YAML %s is not supported here", what), ""
}

// fields converts the keys of a mapping, each of which may be there once.
func (r *reader) fields(values []*ast.MappingValueNode, depth int) []Field {
	var fields []Field
	first := map[string]int{}
	for _, v := range values {
		at := placeOf(v.Key)
		if !isWord(v.Key) {
			r.Fail(at, "this cannot be a key", "a key is a plain word")
			continue
		}
		name := v.Key.GetToken().Value
		if line, ok := first[name]; ok {
			r.Fail(at, fmt.Sprintf("key %s is given twice", Quote(name)), fmt.Sprintf("it is already on line %d", line))
			continue
		}
		first[name] = at.Line
		fields = append(fields, Field{Name: name, At: at, Value: r.node(v.Value, depth+1)})
	}
	return fields
}

// isWord reports whether a key is a plain or quoted scalar.
func isWord(k ast.MapKeyNode) bool {
	switch k.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return true
	}
	return false
}

// placeOf returns where a node is. A block mapping begins at its first key, not
// at the colon that the parser names.
func placeOf(n ast.Node) Place {
	switch n := n.(type) {
	case nil:
		return Place{}
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
func tokenPlace(t *token.Token) Place {
	if t == nil || t.Position == nil {
		return Place{}
	}
	text := strings.TrimSpace(t.Origin)
	if text == "" || strings.Contains(text, "\n") {
		text = "^"
	}
	return Place{Line: t.Position.Line, Column: max(t.Position.Column, 1), Width: utf8.RuneCountInString(text)}
}
