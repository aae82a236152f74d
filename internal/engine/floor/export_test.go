package floor

// CopyImages makes the engine do what it does where there can be no overlay.
func (e *Engine) CopyImages() { e.copies.Store(true) }

// Mark and Unmark are the name of a container's /dev, and what it says.
func Mark(run, id string) string { return mountName(run, id) }

// Unmark undoes Mark.
func Unmark(name string) (run, id string, ok bool) {
	f, ok := parseMountName(name)
	return f.run, f.id, ok
}
