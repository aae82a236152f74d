package inspect

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/image"
)

// A tree is a root file system in memory: names, kinds and sizes, and the content of the few files
// that are read.
type tree struct {
	root      *node
	heldBytes int64 // bytes of content in memory
	implied   int   // directories without an entry
	steps     int   // steps along all paths so far
}

// A node is a name in a directory.
type node struct {
	*inode
	layer int // the layer that made it; its white-outs keep it
}

// An inode is the file behind a name; hard links share it.
type inode struct {
	kind     image.Kind // File, Directory or Symlink
	target   string     // of a symbolic link
	size     int64
	content  []byte // the beginning of a file that is read
	children map[string]*node
}

const (
	maxFollowed = 40               // links on the way to one file, as in Linux
	maxKept     = int64(512) << 20 // bytes of content
	maxSteps    = 200_000_000      // some seconds; an image needs less than a hundredth of it
)

func newTree() *tree { return &tree{root: directory(0)} }

func directory(layer int) *node {
	return &node{&inode{kind: image.Directory, children: map[string]*node{}}, layer}
}

// apply applies an entry to the tree, as unpacking applies it to a root file system.
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
	made, err := t.newInode(e, content)
	if err == nil {
		dir.children[name] = &node{made, e.Layer}
	}
	return err
}

// newInode is the inode that an entry puts at its path.
func (t *tree) newInode(e image.Entry, content io.Reader) (*inode, error) {
	switch e.Kind {
	case image.Directory:
		return directory(e.Layer).inode, nil
	case image.Symlink:
		return &inode{kind: image.Symlink, target: e.Target}, nil
	case image.Hardlink:
		old := t.find(e.Target, false)
		if old == nil || old.kind == image.Directory {
			return nil, fmt.Errorf("hard link to %.300q: that file does not exist", e.Target)
		}
		return old.inode, nil
	}
	return t.file(e, content)
}

// file reads a regular file.
func (t *tree) file(e image.Entry, content io.Reader) (*inode, error) {
	i := &inode{kind: image.File, size: e.Header.Size}
	most := bytesToRead(e.Path)
	if most == 0 {
		return i, nil
	}
	var err error
	if i.content, err = io.ReadAll(io.LimitReader(content, most)); err != nil {
		return nil, err
	}
	return i, t.reserve(int64(len(i.content)))
}

// reserve counts bytes of content. Content that a later layer replaces is freed.
func (t *tree) reserve(n int64) error {
	if t.heldBytes += n; t.heldBytes > maxKept {
		t.heldBytes = n + t.root.heldBytes()
	}
	if t.heldBytes > maxKept {
		return fmt.Errorf("%w: C libraries of more than %d bytes", image.ErrHostile, maxKept)
	}
	return nil
}

// heldBytes is the size of the content in memory.
func (i *inode) heldBytes() int64 {
	n := int64(len(i.content))
	for _, c := range i.children {
		n += c.heldBytes()
	}
	return n
}

// parent returns the directory of a path, and makes the missing parts of it.
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
		return nil, fmt.Errorf("%w: a parent in its path is not a directory, or the path has too many links",
			image.ErrHostile)
	}
	// Directories into which a layer puts something count as the layer's, and so do those above.
	at := t.root
	for element := range strings.SplitSeq(path.Dir(name), "/") {
		if at = at.children[element]; at == nil || at.kind != image.Directory {
			break
		}
		at.layer = layer
	}
	return dir.inode, nil
}

// find returns the node at a path; nil if there is none. It follows a link at the end only if
// follow is true.
func (t *tree) find(name string, follow bool) *node {
	if follow || name == "." {
		return t.walk(name, nil)
	}
	dir := t.walk(path.Dir(name), nil)
	if dir == nil {
		return nil
	}
	return dir.children[path.Base(name)] // nil if dir is not a directory
}

// walk follows a path from the root, and the links on it. No link leads out, because the root is
// its own parent. If a name does not exist, missing may make it.
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

// content is the content of a file that was read, also through links.
func (t *tree) content(name string) ([]byte, bool) {
	n := t.find(name, true)
	if n == nil || n.content == nil {
		return nil, false
	}
	return n.content, true
}

// names lists a directory, sorted.
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
