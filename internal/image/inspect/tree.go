package inspect

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/image"
)

// A tree is a root file system in memory: names, kinds and sizes, and the
// content of the few files that are looked into.
type tree struct {
	root    *node
	kept    int64 // bytes of content, also of what is gone since they were counted
	implied int   // directories that no entry names
	steps   int   // on all ways
}

// A node is a name in a directory.
type node struct {
	*inode
	layer int // that made it, which its white-outs spare
}

// An inode is what a name stands for; a hard link shares it.
type inode struct {
	kind     image.Kind // File, Directory or Symlink
	target   string     // of a symbolic link
	size     int64
	content  []byte // the beginning of a file that is looked into
	children map[string]*node
}

const (
	maxFollowed = 40               // links on the way to one file, as Linux has it
	maxKept     = int64(512) << 20 // bytes of content
	maxSteps    = 200_000_000      // some seconds; an image has less than a hundredth of it
)

func newTree() *tree { return &tree{root: directory(0)} }

func directory(layer int) *node {
	return &node{&inode{kind: image.Directory, children: map[string]*node{}}, layer}
}

// apply does to the tree what an entry does to a root file system.
func (t *tree) apply(e image.Entry, content io.Reader) error {
	switch e.Kind {
	case image.Whiteout:
		t.hide(e.Path, e.Layer)
		return nil
	case image.Opaque:
		if n := t.find(e.Path, false); n != nil {
			n.hideChildren(e.Layer)
		}
		return nil
	}
	if e.Path == "." {
		if e.Kind != image.Directory {
			return fmt.Errorf("%w: the root is not a directory", image.ErrHostile)
		}
		return nil
	}
	dir, err := t.parent(e.Path, e.Layer)
	if err != nil {
		return err
	}
	name := path.Base(e.Path)
	if old := dir.children[name]; e.Kind == image.Directory && old != nil && old.kind == image.Directory {
		old.layer = e.Layer
		return nil
	}
	delete(dir.children, name)
	made, err := t.made(e, content)
	if err == nil {
		dir.children[name] = &node{made, e.Layer}
	}
	return err
}

// made is what an entry puts at its path.
func (t *tree) made(e image.Entry, content io.Reader) (*inode, error) {
	switch e.Kind {
	case image.Directory:
		return directory(e.Layer).inode, nil
	case image.Symlink:
		return &inode{kind: image.Symlink, target: e.Target}, nil
	case image.Hardlink:
		old := t.find(e.Target, false)
		if old == nil || old.kind == image.Directory {
			return nil, fmt.Errorf("hard link to %.300q: there is no such file", e.Target)
		}
		return old.inode, nil
	}
	return t.file(e, content)
}

// file reads a regular file.
func (t *tree) file(e image.Entry, content io.Reader) (*inode, error) {
	i := &inode{kind: image.File, size: e.Header.Size}
	most := interest(e.Path)
	if most == 0 {
		return i, nil
	}
	var err error
	if i.content, err = io.ReadAll(io.LimitReader(content, most)); err != nil {
		return nil, err
	}
	return i, t.keep(int64(len(i.content)))
}

// keep books content. What a later layer replaces is not held any more.
func (t *tree) keep(n int64) error {
	if t.kept += n; t.kept > maxKept {
		t.kept = n + t.root.held()
	}
	if t.kept > maxKept {
		return fmt.Errorf("%w: C libraries of more than %d bytes", image.ErrHostile, maxKept)
	}
	return nil
}

// held is how many bytes of content there are.
func (i *inode) held() int64 {
	n := int64(len(i.content))
	for _, c := range i.children {
		n += c.held()
	}
	return n
}

// parent is the directory that a path lies in, and makes what is missing of it.
func (t *tree) parent(name string, layer int) (*inode, error) {
	dir := t.walk(path.Dir(name), func(in *node, name string) *node {
		if t.implied++; t.implied > image.MaxImplied {
			return nil
		}
		made := directory(layer)
		in.children[name] = made
		return made
	})
	if dir == nil || dir.kind != image.Directory {
		return nil, fmt.Errorf("%w: what it lies in is no directory, or too far away", image.ErrHostile)
	}
	// What a layer puts something into is the layer's, and so is what that lies in.
	at := t.root
	for element := range strings.SplitSeq(path.Dir(name), "/") {
		if at = at.children[element]; at == nil || at.kind != image.Directory {
			break
		}
		at.layer = layer
	}
	return dir.inode, nil
}

// find is what lies at a path; nil if there is nothing. The last link is followed
// only if follow says so.
func (t *tree) find(name string, follow bool) *node {
	if follow || name == "." {
		return t.walk(name, nil)
	}
	dir := t.walk(path.Dir(name), nil)
	if dir == nil {
		return nil
	}
	return dir.children[path.Base(name)] // of what is no directory there are none
}

// walk follows a path from the root, and links on its way, none of which leads
// out: the root is its own parent. Where nothing is, missing may make something.
func (t *tree) walk(name string, missing func(in *node, name string) *node) *node {
	way, rest, followed := []*node{t.root}, strings.Split(name, "/"), 0
	for len(rest) > 0 {
		if t.steps++; t.steps > maxSteps {
			return nil
		}
		in, element := way[len(way)-1], rest[0]
		rest = rest[1:]
		switch {
		case element == "" || element == ".":
			continue
		case element == "..":
			way = way[:max(1, len(way)-1)]
			continue
		case in.kind != image.Directory:
			return nil
		}
		next := in.children[element]
		if next == nil && missing != nil {
			next = missing(in, element)
		}
		switch {
		case next == nil:
			return nil
		case next.kind != image.Symlink:
			way = append(way, next)
		case followed == maxFollowed:
			return nil
		default:
			followed++
			if path.IsAbs(next.target) {
				way = way[:1]
			}
			rest = slices.Concat(strings.Split(next.target, "/"), rest)
		}
	}
	return way[len(way)-1]
}

// hide removes what lower layers have at a path.
func (t *tree) hide(name string, layer int) {
	dir := t.find(path.Dir(name), true)
	if dir == nil {
		return
	}
	switch n := dir.children[path.Base(name)]; {
	case n == nil:
	case n.layer == layer:
		n.hideChildren(layer)
	default:
		delete(dir.children, path.Base(name))
	}
}

// hideChildren removes what lower layers have in a directory.
func (n *node) hideChildren(layer int) {
	for name, c := range n.children {
		if c.layer == layer {
			c.hideChildren(layer)
		} else {
			delete(n.children, name)
		}
	}
}

// content is that of a file that was looked into, whatever link leads to it.
func (t *tree) content(name string) ([]byte, bool) {
	n := t.find(name, true)
	if n == nil || n.content == nil {
		return nil, false
	}
	return n.content, true
}

// names lists a directory, in order.
func (t *tree) names(dir string) []string {
	n := t.find(dir, true)
	if n == nil {
		return nil
	}
	var all []string
	for name := range n.children {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
