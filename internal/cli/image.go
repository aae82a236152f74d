package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/inspect"
)

func (a *invocation) imageCommand() *cobra.Command {
	var engine string
	cmd := &cobra.Command{
		Use:   "image REF...",
		Short: "Show sizes, layers, C library and configuration of images",
		Long: `Image reads images and shows their sizes, layers, C library and configuration.
For several images it also shows which layers they share and which settings
differ. It runs nothing in them.

A reference is docker://REF (in a registry), oci:DIR (an OCI image layout),
tar:FILE (from 'docker save', or an archive of a layout), host:PROGRAM (a
program of this host, packed), agent (tare's own image) or, with --engine, a
name in that engine's store.`,
		Example: `  tare image docker://nginx docker://nginx:alpine
  tare image --engine docker nginx:1.27 host:nginx
  tare image tar:web.tar --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{errors.New("no images given"), "'tare image --help' explains how to name images"}
			}
			if slices.Contains(args, "") { // elsewhere an empty name means tare's own image
				return &usageError{errors.New("an image name is empty"), "'tare image --help' explains how to name images"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.images(cmd.Context(), args, engine) },
	}
	cmd.Flags().StringVarP(&engine, "engine", "e", "",
		"`name` of the engine whose store has the image names: docker, podman, containerd, or an instance of them")
	return cmd
}

// images inspects images, with a directory for what has to be fetched.
func (a *invocation) images(ctx context.Context, refs []string, engine string) (err error) {
	dir, remove, err := app.WorkDir(os.TempDir())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	s := a.tare.EngineSite("image", dir)
	store, done, err := openStore(ctx, s, engine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	var all []*inspect.Report
	for _, ref := range refs {
		a.verbose("reading %s", ref)
		r, err := inspectOne(ctx, s, store, ref)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	c := inspect.Compare(all)
	if a.global.JSON {
		return a.printJSON(c)
	}
	return writeImages(a.stdout, c, a.width())
}

// openStore opens the engine whose store is meant; nil if no engine is given.
func openStore(ctx context.Context, s *app.EngineSite, flag string) (bench.ImageSaver, func() error, error) {
	none := func() error { return nil }
	if flag == "" {
		return nil, none, nil
	}
	chosen, declared, err := parseEngines([]string{flag})
	if err != nil {
		return nil, none, err
	}
	if len(chosen) != 1 {
		return nil, none, &usageError{fmt.Errorf("--engine %q is not one engine", flag), "name one engine"}
	}
	i := *declare(chosen[0])
	if len(declared) > 0 {
		i = declared[0]
	}
	e, err := s.Engine(i)
	if err != nil {
		return nil, none, err
	}
	done := func() error { return app.CloseEngines(ctx, map[string]bench.Engine{i.Name: e}) }
	store, ok := bench.As[bench.ImageSaver](e)
	if !ok {
		refused := &usageError{fmt.Errorf("engine %s has no image store", i.Name), "docker, podman and containerd have one"}
		return nil, none, errors.Join(refused, done())
	}
	return store, done, nil
}

// inspectOne inspects an image, which an engine saves first if it is its own.
func inspectOne(ctx context.Context, s *app.EngineSite, store bench.ImageSaver, ref string) (*inspect.Report, error) {
	img, err := s.Images.Resolve(ctx, ref)
	if errors.Is(err, image.ErrForeign) {
		img, err = savedImage(ctx, s, store, ref, err)
	}
	if err != nil {
		return nil, app.ImageProblem(ref, err)
	}
	r, err := inspect.Inspect(ctx, img)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	r.Ref = ref
	return r, nil
}

// savedImage is an image of an engine's store. Foreign says why it is none of others.
func savedImage(
	ctx context.Context, s *app.EngineSite, store bench.ImageSaver, ref string, foreign error,
) (*image.Image, error) {
	if store == nil {
		return nil, &hintError{foreign, imageNotStored(ref)}
	}
	return s.Images.Saved(ctx, store, "", ref)
}

// imageNotStored says how to name an image if no engine was given whose store to look in.
func imageNotStored(ref string) string {
	inStore := "use --engine docker if the image is in docker's store"
	if meant, ok := image.Intended(ref); ok {
		return fmt.Sprintf("did you mean %s? Or %s", meant, inStore)
	}
	return inStore + "; or " + image.NamedElsewhere(ref)
}
