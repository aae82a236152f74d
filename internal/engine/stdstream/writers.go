package stdstream

import "io"

// A Sink takes everything. It passes on to To, unless it is nil, what comes until To fails.
type Sink struct{ To io.Writer }

func (s *Sink) Write(p []byte) (int, error) {
	if s.To != nil && len(p) > 0 {
		if _, err := s.To.Write(p); err != nil {
			s.To = nil
		}
	}
	return len(p), nil
}

// A First takes everything. It keeps the first Limit bytes as Text.
type First struct {
	Limit int
	Text  []byte
}

func (f *First) Write(p []byte) (int, error) {
	f.Text = append(f.Text, p[:min(len(p), f.Limit-len(f.Text))]...)
	return len(p), nil
}
