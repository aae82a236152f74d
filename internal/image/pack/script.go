package pack

import (
	"fmt"
	"path"
	"strings"
)

// maxInterpreters is how many scripts may be interpreters of one another, as in
// the kernel.
const maxInterpreters = 4

// script returns the line of a script that names its interpreter, as much as
// the kernel reads of it; nothing if the file is none.
func (t *tree) script(name string) (string, error) {
	w, err := t.find(name)
	if err != nil {
		return "", nil // whoever wants the program will say so
	}
	head, err := w.read(256)
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(string(head), "\n")
	line, ok := strings.CutPrefix(first, "#!")
	if !ok {
		return "", nil
	}
	return strings.TrimSpace(line), nil
}

func (t *tree) isScript(name string) bool {
	line, err := t.script(name)
	return err == nil && line != ""
}

// script adds a script with its interpreter, and the program that env is to find.
func (p *packer) script(file, wanted, line string, depth int) (*closure, error) {
	w, err := p.tree.find(file)
	if err != nil {
		return nil, err
	}
	if w.file().Mode&0o111 == 0 {
		return nil, refused(file, "is not executable: chmod +x")
	}
	p.tree.take(w, wanted)
	p.set.Scripts = append(p.set.Scripts, file)
	words := strings.Fields(line)
	if !path.IsAbs(words[0]) {
		return nil, refused(file, "is a script for %.200q: its interpreter is not an absolute path", line)
	}
	c, err := p.program(words[0], file, depth+1)
	if err != nil {
		return nil, fmt.Errorf("%s is a script for %.200q: %w", file, line, err)
	}
	if path.Base(words[0]) != "env" {
		return c, nil
	}
	for _, word := range words[1:] {
		if strings.HasPrefix(word, "-") || strings.Contains(word, "=") {
			continue // options, such as -S, and variables
		}
		found, err := Find(word)
		if err != nil {
			return nil, fmt.Errorf("%s is a script for %.200q: %w", file, line, err)
		}
		return p.program(found, file, depth+1)
	}
	return c, nil
}
