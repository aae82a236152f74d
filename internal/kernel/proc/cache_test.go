package proc

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLastLevelCache(t *testing.T) {
	for _, test := range []struct {
		name  string
		sizes []string
		want  int64
	}{
		{"three levels", []string{"32K\n", "32K\n", "512K\n", "32768K\n"}, 32 << 20},
		{"none that is known", nil, 0},
		{"of another form", []string{"32M\n", "", "-1K\n", "K\n", "99999999999999999999K\n"}, 0},
	} {
		root := t.TempDir()
		for i, size := range test.sizes {
			file := filepath.Join(root, "sys/devices/system/cpu/cpu0/cache", "index"+string(rune('0'+i)), "size")
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(size), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := LastLevelCache(root); got != test.want {
			t.Errorf("%s: %d bytes, want %d", test.name, got, test.want)
		}
	}
}

func TestMakesHugePages(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "sys/kernel/mm/transparent_hugepage")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"always [madvise] never\n": true, "[always] madvise never\n": true, "always madvise [never]\n": false,
	} {
		if err := os.WriteFile(filepath.Join(dir, "enabled"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := MakesHugePages(root); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if MakesHugePages(t.TempDir()) {
		t.Error("a kernel without transparent huge pages makes some")
	}
}
