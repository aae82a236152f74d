package peer

// SetProgram offers a file as the program for an architecture.
func (t *Target) SetProgram(arch, file string) {
	t.find = func(of string) (string, error) {
		if of == arch {
			return file, nil
		}
		return ownProgram(of)
	}
}
