package readback

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// The options that say what a sync does are kept; those that are another container's each time are not.
func TestOptions(t *testing.T) {
	for super, want := range map[string]string{
		"rw,errors=remount-ro,nobarrier,data=writeback":                           "rw,relatime,errors=remount-ro,nobarrier,data=writeback",
		"rw,lowerdir=/d/l/A:/d/l/B,upperdir=/d/1/diff,workdir=/d/1/work,volatile": "rw,relatime,volatile",
		"rw,space_cache=v2,subvolid=271,subvol=/c/271":                            "rw,relatime,space_cache=v2",
		`rw,context="system_u:object_r:container_file_t:s0:c1,c2",volatile`:       "rw,relatime,volatile",
		`rw,rootcontext="a:b,c",context="a:b,c"`:                                  "rw,relatime",
		`rw,context="not closed`:                                                  `rw,relatime,context="not closed`,
		"":                                                                        "rw,relatime",
	} {
		got := strings.Join(options(proc.Mount{Options: "rw,relatime", Super: super}), ",")
		if got != want {
			t.Errorf("options of %q = %q, want %q", super, got, want)
		}
	}
}

// Below an overlay is what its writable layer is on, as far as that can be seen.
func TestBelow(t *testing.T) {
	dir := t.TempDir()
	on := DirMounts(dir)
	if len(on) == 0 || !strings.HasPrefix(on[0], FileSystem(dir)+" r") {
		t.Fatalf("DirMounts(%s) = %q", dir, on)
	}
	overlay := proc.Mount{
		Options: "rw,relatime", Type: "overlay", Super: "rw,lowerdir=/x,upperdir=" + dir + ",workdir=/y,volatile",
	}
	if diff := cmp.Diff(append([]string{"overlay rw,relatime,volatile"}, on...), below(overlay)); diff != "" {
		t.Errorf("below an overlay (-want +got):\n%s", diff)
	}
	overlay.Super = "rw,upperdir=" + dir + "/elsewhere"
	if diff := cmp.Diff([]string{"overlay rw,relatime"}, below(overlay)); diff != "" {
		t.Errorf("below an overlay that is not visible (-want +got):\n%s", diff)
	}
	if got := DirMounts(dir + "/none"); got != nil {
		t.Errorf("DirMounts of nothing = %q", got)
	}
	if got := DataMounts(0); got != nil {
		t.Errorf("DataMounts of no process = %q", got)
	}
}

func TestShm(t *testing.T) {
	var st unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		t.Skipf("nothing is mounted at /dev/shm: %v", err)
	}
	size := int64(st.Blocks) * st.Bsize
	for asked, want := range map[int64]int64{0: size, size: size, size - 1: size - 1, size + 1: size, 4096: size} {
		if got := Shm(Self, asked); got != want {
			t.Errorf("Shm, asked for %d = %d, want %d", asked, got, want)
		}
	}
	if got := Shm(1<<30, 0); got != 0 {
		t.Errorf("Shm of no process = %d", got)
	}
}

func TestFacts(t *testing.T) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	got := Facts(os.Getpid())
	if got == nil {
		t.Fatal("nothing is known about this process")
	}
	if diff := cmp.Diff(&bench.ProcessFacts{UID: os.Geteuid(), Files: files.Cur, OOM: got.OOM}, got); diff != "" {
		t.Errorf("Facts (-want +got):\n%s", diff)
	}
	if got := Facts(1 << 30); got != nil {
		t.Errorf("Facts of no process = %+v", got)
	}
}

func FuzzField(f *testing.F) {
	f.Add("Uid:\t1\t2\t3\t4\n", "Uid:", 1)
	f.Fuzz(func(t *testing.T, text, key string, n int) {
		if n < 0 || n > 10 {
			return
		}
		if v, err := field[int]([]byte(text), key, n); err == nil && v < 0 {
			t.Errorf("field = %d", v)
		}
	})
}
