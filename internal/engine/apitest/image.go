package apitest

import (
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
)

// FakeLibrary returns a library with a fake agent.
func FakeLibrary(t *testing.T) *image.Library {
	t.Helper()
	return image.NewLibrary(t.TempDir(), image.WithAgent([]byte("not a program")))
}

// PresentImage tests that an image that the engine already has is neither sent again nor deleted at
// the end. name is the engine's name, and id converts a digest to the engine's ID.
func PresentImage[E Engine](t *testing.T, open Open[E], name string, id func(digest string) string) {
	img, err := FakeLibrary(t).Resolve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	at, tag := "/images/"+id(img.Digest()), "tare.local/run-1/"+name+"/agent:latest"
	for tags, want := range map[string]struct{ image, untagged string }{
		`[]`:              {id(img.Digest()), ""},
		`["mine:1"]`:      {tag, "DELETE /images/" + tag},
		`["` + tag + `"]`: {tag, "DELETE /images/" + tag},
	} {
		var asked struct{ Image string }
		e, s := open(t, Answers{
			"GET " + at + "/json":     Reply(200, `{"Id":"`+id(img.Digest())+`","RepoTags":`+tags+`}`),
			"POST " + at + "/tag":     Reply(201, ``),
			"POST /containers/create": Decode(t, &asked, Reply(201, `{"Id":"c1"}`)),
		})
		if _, err := e.Create(t.Context(), bench.Spec{}); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if asked.Image != want.image || s.HasCall("POST /images/load") || s.HasCall("DELETE") != (want.untagged != "") ||
			!s.HasCall(want.untagged) {
			t.Errorf("tags %s: container of %s, calls %q; want %+v and nothing loaded", tags, asked.Image, s.Calls(), want)
		}
	}
}
