package pack

// Plain is Pack of one program without a recipe.
func (h Host) Plain(program string) (*Set, error) {
	return h.pack(func(string) *Recipe { return nil }, []string{program})
}
