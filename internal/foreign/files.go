package foreign

// The labels of runs where a program is told what it measured by nothing but a command or a file.
const (
	LabelVariant = "variant" // what was measured, in the words of whoever measured it
	LabelFile    = "file"    // the name of the file, without its directory
)

// Each reads one file after the other, for programs of which each file has results of its own: read
// makes the sets of a file, and none if the file has no results, which what names. A file that is only
// one of a directory is then passed over; one that was given itself is an error, with the hint. Every
// set has the file's name as a label.
func (in *Input) Each(what, hint string, read func(f *File) ([]Set, error)) ([]Set, error) {
	var all []Set
	for i := range in.Files {
		f := &in.Files[i]
		sets, err := read(f)
		switch {
		case err != nil:
			return nil, err
		case len(sets) == 0 && !f.InDir:
			return nil, Errorf(f.Name, 0, hint, "there is no %s in it", what)
		}
		for _, s := range sets {
			if s.Found.IsZero() {
				s.Found = f.Time
			}
			if f.begins == nil { // stdin has no name
				s.Labels = append(s.Labels, Label(LabelFile, f.Base))
			}
			all = append(all, s)
		}
	}
	return all, nil
}
