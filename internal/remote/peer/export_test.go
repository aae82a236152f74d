package peer

import "time"

// EndWithin changes how long Close waits.
func (s *Session) EndWithin(d time.Duration) { s.ending = d }

// SetProgram offers a file as the program for an architecture.
func (t *Target) SetProgram(arch, file string) {
	t.find = func(of string) (string, error) {
		if of == arch {
			return file, nil
		}
		return ownProgram(of)
	}
}

// SetDamaged offers a program for an architecture that cannot be used.
func (t *Target) SetDamaged(arch string, why error) {
	t.find = func(of string) (string, error) {
		if of == arch {
			return "", why
		}
		return ownProgram(of)
	}
}
