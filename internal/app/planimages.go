package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
)

// checkImages finds every image of the plan, so that one that is missing or does not run
// here is reported before anything is measured. For names that only an engine knows, it
// asks the engine; images on another machine are left to that. It warns of images that are
// the same under several names.
func (p *Planned) checkImages(ctx context.Context) ([]bench.Warning, error) {
	var refs []string
	var errs []error
	names := map[string][]string{} // by digest
	for _, c := range p.Plan.Cells {
		ref := c.Spec.Image
		if ref == "" || slices.Contains(refs, ref) || p.hasOwnImages(c.Engine) {
			continue
		}
		refs = append(refs, ref)
		img, err := p.engineSite.Images.Resolve(ctx, ref)
		switch {
		case errors.Is(err, image.ErrForeign):
			errs = append(errs, p.checkStored(ctx, ref))
		case err != nil:
			errs = append(errs, ImageProblem(ref, err))
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
func (p *Planned) checkStored(ctx context.Context, ref string) error {
	var errs []error
	for _, e := range p.Used() {
		finder, ok := bench.As[bench.ImageFinder](e.Engine)
		uses := func(c bench.Cell) bool { return c.Engine == e.Name && c.Spec.Image == ref }
		if !ok || !slices.ContainsFunc(p.Plan.Cells, uses) {
			continue
		}
		if err := finder.FindImage(ctx, ref); errors.Is(err, bench.ErrNoImage) {
			errs = append(errs, &Problem{Kind: NoImage, Err: err})
		}
	}
	if errs == nil {
		return nil
	}
	err := errors.Join(errs...)
	if meant := p.intendedImage(ctx, ref); meant != "" {
		err = &Problem{Kind: NoImage, Err: err, Names: []string{meant}}
	}
	return err
}

// intendedImage is the image that was probably meant in place of a missing one: the same with its
// kind spelt correctly, or the host's program of that name. Empty if there is none.
func (p *Planned) intendedImage(ctx context.Context, ref string) string {
	if meant, ok := image.Intended(ref); ok {
		return meant
	}
	program, _, _ := strings.Cut(path.Base(ref), ":")
	meant := "host:" + program
	if _, err := p.engineSite.Images.Resolve(ctx, meant); err != nil {
		return ""
	}
	return meant
}

// OnlyImage is the image of a comparison of images that has nothing to compare it with;
// empty in any other.
func (p *Planned) OnlyImage() string {
	only := ""
	for _, c := range p.Plan.Cells {
		switch {
		case c.Control:
		case p.Plan.Workload != ImageWorkload() || only != "":
			return ""
		default:
			only = c.Spec.Image
		}
	}
	return only
}

// nameOnlyImage names the cell of such an image after the image. As nothing varies, the
// cell would have the name of its engine, which nobody asked about.
func (p *Planned) nameOnlyImage() {
	ref := p.OnlyImage()
	if ref == "" {
		return
	}
	for i := range p.Plan.Cells {
		if c := &p.Plan.Cells[i]; c.Name == c.Engine {
			c.Name = ref
		}
	}
}

// ImageProblem classifies why an image cannot be had. A reference to something that does
// not exist, or that tare does not understand, is a Problem.
func ImageProblem(ref string, err error) error {
	var dial *net.OpError
	var misspelt image.MisspeltError
	kind, name, _ := strings.Cut(ref, ":")
	switch {
	case kind == "docker" && errors.As(err, &dial):
		return &Problem{Kind: NoRegistry, Err: err}
	case kind == "tar" && name != "" && missingFile(name):
		return &Problem{Kind: NoArchive, Err: err}
	case kind == "oci" && name != "" && missingFile(name):
		return &Problem{Kind: NoLayout, Err: err}
	case kind == "host" && errors.Is(err, fs.ErrNotExist):
		// It is refused for what was named, and not for what this machine cannot do.
		why := strings.Replace(err.Error(), bench.ErrUnsupported.Error()+": ", "", 1)
		return &Problem{Kind: NoProgram, Err: errors.New(why)}
	case errors.Is(err, image.ErrForeign), errors.Is(err, bench.ErrNoImage), errors.As(err, &misspelt):
		return &Problem{Kind: NoImage, Err: err}
	}
	return err
}

// missingFile reports whether a file is not there.
func missingFile(name string) bool {
	_, err := os.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

func sameImage(digest string, names []string) bench.Warning {
	return bench.Warning{
		Code: "same-image",
		Text: fmt.Sprintf("%s are the same image, %.19s", strings.Join(names, " and "), digest),
		Hint: "any difference between them is noise",
	}
}

// hasOwnImages reports whether an engine finds its images elsewhere, or needs none.
func (p *Planned) hasOwnImages(engine string) bool {
	return slices.ContainsFunc(p.Probed, func(e Probed) bool {
		return e.Name == engine && (e.Driver == RemoteDriver || e.Driver == "native")
	})
}
