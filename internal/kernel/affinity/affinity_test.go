package affinity

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

func TestLists(t *testing.T) {
	for list, want := range map[string][]int{
		"1": {1}, "2-3": {2, 3}, "0-2,5,7-8": {0, 1, 2, 5, 7, 8}, "": nil,
	} {
		got, err := Parse(list)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", list, got, err, want)
		}
		if again := Format(want); again != list {
			t.Errorf("%v: %q, want %q", want, again, list)
		}
	}
	if got, err := Parse("3,0,0-1"); err != nil || !slices.Equal(got, []int{3, 0, 0, 1}) {
		t.Errorf("a list in an order of its own: %v, %v", got, err)
	}
	for _, list := range []string{",", "x", "0-", "-1", "3-2", "0,x", "0,", "0-65537", "99999999999999999999"} {
		if got, err := Parse(list); err == nil || got != nil {
			t.Errorf("%q: %v, %v, want an error", list, got, err)
		}
	}
}

// Client and server are kept apart wherever there are two CPUs for them.
func TestApart(t *testing.T) {
	for name, test := range map[string]struct {
		mine, theirs string
		threads      int
		client       string
		server       string
	}{
		"half each":              {"0-3", "0-3", 4, "0-1", "2-3"},
		"one each":               {"0-3", "0-3", 1, "0", "3"},
		"an odd one is left":     {"0-4", "0-4", 5, "0-1", "3-4"},
		"the client's first":     {"0-3", "0", 1, "1", "0"},
		"all of a small set":     {"0-3", "0-1", 4, "2-3", "0-1"},
		"one for both":           {"2", "2", 1, "", ""},
		"apart already":          {"0-1", "4-5", 1, "0", "5"},
		"nobody says for mine":   {"", "1", 1, "", ""},
		"nobody says for theirs": {"0-3", "", 1, "", ""},
	} {
		mine, err1 := Parse(test.mine)
		theirs, err2 := Parse(test.theirs)
		client, server := apart(mine, theirs, Share(len(mine), test.threads))
		if err1 != nil || err2 != nil || Format(client) != test.client || Format(server) != test.server {
			t.Errorf("%s: %v and %v, want %s and %s", name, client, server, test.client, test.server)
		}
	}
}

func TestPin(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all := Allowed()
	if len(all) == 0 {
		t.Skip("the kernel does not tell on which CPUs this process may run")
	}
	unpin := Pin(all[len(all)-1])
	if got := Allowed(); !slices.Equal(got, all[len(all)-1:]) {
		t.Errorf("pinned to the last of %v: on %v", all, got)
	}
	if err := unpin(); err != nil || !slices.Equal(Allowed(), all) {
		t.Errorf("unpinned: on %v of %v, %v", Allowed(), all, err)
	}
	for name, cpus := range map[string][]int{"on none": nil, "on one that is not there": {maxCPU}} {
		if err := Pin(cpus...)(); err != nil || !slices.Equal(Allowed(), all) {
			t.Errorf("%s: on %v of %v, %v", name, Allowed(), all, err)
		}
	}
}

func TestCPUTime(t *testing.T) {
	before := CPUTime()
	for began := time.Now(); time.Since(began) < 20*time.Millisecond; {
		runtime.KeepAlive(began)
	}
	if used := CPUTime() - before; used <= 0 {
		t.Errorf("%v for 20 ms of work", used)
	}
}
