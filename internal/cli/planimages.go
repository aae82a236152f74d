package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
)

// checkImages finds every image of the plan, so that one that is not there, or that
// does not run here, is told before anything is measured. It asks an engine for what
// that alone knows, and leaves to another machine what lies there. It warns of images
// that are the same under several names.
func (p *planned) checkImages(ctx context.Context) ([]bench.Warning, error) {
	var refs []string
	var errs []error
	names := map[string][]string{} // by digest
	for _, c := range p.plan.Cells {
		ref := c.Spec.Image
		if ref == "" || slices.Contains(refs, ref) || p.isElsewhere(c.Engine) {
			continue
		}
		refs = append(refs, ref)
		img, err := p.site.images.Resolve(ctx, ref)
		switch {
		case errors.Is(err, image.ErrForeign):
			errs = append(errs, p.checkStored(ctx, ref))
		case err != nil:
			errs = append(errs, imageError(ref, err))
		default:
			names[img.Digest()] = append(names[img.Digest()], ref)
		}
	}
	var same []bench.Warning
	for _, ref := range refs {
		for digest, all := range names {
			if len(all) > 1 && all[0] == ref {
				same = append(same, sameImage(digest, all))
			}
		}
	}
	return same, errors.Join(errs...)
}

// checkStored asks every engine whose cells have an image of a name that only engines
// can know. What an engine cannot find out is left to the trials.
func (p *planned) checkStored(ctx context.Context, ref string) error {
	var errs []error
	for _, e := range p.used() {
		finder, ok := bench.As[bench.ImageFinder](e.engine)
		uses := func(c bench.Cell) bool { return c.Engine == e.instance.Name && c.Spec.Image == ref }
		if !ok || !slices.ContainsFunc(p.plan.Cells, uses) {
			continue
		}
		if err := finder.FindImage(ctx, ref); errors.Is(err, bench.ErrNoImage) {
			errs = append(errs, &usageError{err, ""})
		}
	}
	if errs == nil {
		return nil
	}
	err := errors.Join(errs...)
	if meant := p.meant(ctx, ref); meant != "" {
		err = &usageError{err, fmt.Sprintf("did you mean %s?", meant)}
	}
	return err
}

// meant is the image that was to be named in place of one that is not there: of a kind
// that is misspelt, or of the host's program of that name. Empty where there is none.
func (p *planned) meant(ctx context.Context, ref string) string {
	if meant, ok := image.Meant(ref); ok {
		return meant
	}
	program, _, _ := strings.Cut(path.Base(ref), ":")
	meant := "host:" + program
	if _, err := p.site.images.Resolve(ctx, meant); err != nil {
		return ""
	}
	return meant
}

// onlyImage is the image of a comparison of images that has nothing to compare it with;
// empty in any other.
func (p *planned) onlyImage() string {
	only := ""
	for _, c := range p.plan.Cells {
		switch {
		case c.Control:
		case p.plan.Workload != imageExperiment || only != "":
			return ""
		default:
			only = c.Spec.Image
		}
	}
	return only
}

// nameOnlyImage calls the cell of such an image what the user calls it. Where nothing
// varies it has the name of its engine, which nobody asked about.
func (p *planned) nameOnlyImage() {
	ref := p.onlyImage()
	if ref == "" {
		return
	}
	for i := range p.plan.Cells {
		if c := &p.plan.Cells[i]; c.Name == c.Engine {
			c.Name = ref
		}
	}
}

// imageError adds what to do: a reference to what is not there, or to nothing that tare
// knows, is a mistake in what was typed.
func imageError(ref string, err error) error {
	var dial *net.OpError
	var misspelt image.Misspelt
	kind, name, _ := strings.Cut(ref, ":")
	switch {
	case kind == "docker" && errors.As(err, &dial):
		return &hintError{err, "is the registry there, and may it be reached from here?"}
	case kind == "tar" && name != "" && missingFile(name):
		return &usageError{err, "name a file that 'docker save' or 'tare pack -o' wrote"}
	case kind == "oci" && name != "" && missingFile(name):
		return &usageError{err, "name the directory of an OCI image layout"}
	case kind == "host" && errors.Is(err, fs.ErrNotExist):
		return mistyped(err, "is it spelt like that?")
	case errors.Is(err, image.ErrForeign), errors.Is(err, bench.ErrNoImage), errors.As(err, &misspelt):
		return &usageError{err, ""}
	}
	return err
}

func sameImage(digest string, names []string) bench.Warning {
	return bench.Warning{
		Code: "same-image",
		Text: fmt.Sprintf("%s are the same image, %.19s", strings.Join(names, " and "), digest),
		Hint: "what differs between them is noise",
	}
}

// isElsewhere reports whether an engine finds its images elsewhere, or needs none.
func (p *planned) isElsewhere(engine string) bool {
	return slices.ContainsFunc(p.probed, func(e probed) bool {
		return e.instance.Name == engine && (e.instance.Driver == remoteDriver || e.instance.Driver == "native")
	})
}
