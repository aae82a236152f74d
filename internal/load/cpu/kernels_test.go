package cpu

import (
	"bytes"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"
)

// Every kernel gives its right answer, and again, and allocates nothing.
func TestKernels(t *testing.T) {
	for _, k := range kernels() {
		operation := k.prepare()
		for range 3 {
			if err := k.check(operation()); err != nil {
				t.Error(err)
			}
		}
		if n := testing.AllocsPerRun(3, func() { operation() }); n != 0 {
			t.Errorf("kernel %s allocates %v times", k.name, n)
		}
	}
}

// The answers are right by themselves, not only the same as ever.
func TestAnswers(t *testing.T) {
	want := map[string]uint64{}
	for _, k := range kernels() {
		want[k.name] = k.want
	}
	if got := want["prime"]; got != 12251 { // π(2¹⁷), OEIS A007053
		t.Errorf("%d primes below 131072, want 12251", got)
	}
	if got := want["physics"]; got != 169087605 { // as the Benchmarks Game has it
		t.Errorf("energy %d billionths after 1000 steps, want 169087605", got)
	}
	if got := float64(want["float"]) / 1e6; math.Abs(got-4*math.Pi) > 2e-6 {
		t.Errorf("areas together %v, want 4π", got)
	}
	var pairs, total uint64 // the sum of Euler's φ, and of splitmix64
	for n := uint64(1); n <= 64; n++ {
		for m := uint64(1); m <= n; m++ {
			if !commonDivisor(n, m) {
				pairs++
			}
		}
	}
	var s sequence
	for range 16384 {
		total += s.next()
	}
	if got := pairs + total; got != want["integer"] {
		t.Errorf("integer %d, want %d", got, want["integer"])
	}
}

func commonDivisor(a, b uint64) bool {
	for d := uint64(2); d <= b; d++ {
		if a%d == 0 && b%d == 0 {
			return true
		}
	}
	return false
}

// The first numbers of splitmix64 from 0, as its authors' C gives them.
func TestSequence(t *testing.T) {
	var s sequence
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		if got := s.next(); got != want {
			t.Errorf("number %d is %#x, want %#x", i, got, want)
		}
	}
}

// RFC 8439, 2.4.2.
func TestChaCha20(t *testing.T) {
	plain := []byte(
		"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.",
	)
	want := "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0bf91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d807ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab77937365af90bbf74a35be6b40b8eedf2785e42874d"
	var key [8]uint32
	for i := range key {
		k := uint32(4 * i)
		key[i] = k | (k+1)<<8 | (k+2)<<16 | (k+3)<<24
	}
	got := make([]byte, len(plain))
	chacha20(got, plain, &key, &[3]uint32{0, 0x4a000000, 0}, 1)
	if hex.EncodeToString(got) != want {
		t.Errorf("got %x, want %s", got, want)
	}
}

// What was packed unpacks, and text becomes shorter.
func FuzzCompress(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("abc"))
	f.Add(bytes.Repeat([]byte("a"), 3*maxRun))
	f.Add(text(1000))
	noise, s := make([]byte, 4*maxRun), sequence(1)
	for i := range noise {
		noise[i] = byte(s.next())
	}
	f.Add(noise)
	f.Fuzz(func(t *testing.T, plain []byte) {
		if len(plain) >= maxPlain {
			return
		}
		packed := make([]byte, packedSize(len(plain)))
		n := compress(packed, plain, new(positions))
		if got := decompress(make([]byte, len(plain)), packed[:n]); !bytes.Equal(got, plain) {
			t.Errorf("%q became %q", plain, got)
		}
	})
}

func TestCompressShortens(t *testing.T) {
	plain := text(8 << 10)
	packed := make([]byte, packedSize(len(plain)))
	if n := compress(packed, plain, new(positions)); n > len(plain)*4/5 {
		t.Errorf("%d bytes of text became %d", len(plain), n)
	}
}

// The parts of kernel strings beside the obvious way.
func TestStrings(t *testing.T) {
	prose, words := string(text(4<<10)), vocabulary()
	if !slices.IsSorted(words) {
		t.Fatal("the vocabulary is not in order")
	}
	counts := make([]uint64, len(words))
	countWords(counts, words, prose)
	want := map[string]uint64{}
	for w := range strings.FieldsSeq(prose) {
		want[w]++
	}
	for i, w := range words {
		if counts[i] != want[w] {
			t.Errorf("%q was counted %d times, want %d", w, counts[i], want[w])
		}
	}
	if got := string(replace(nil, prose, "and", "as well as")); got != strings.ReplaceAll(prose, "and", "as well as") {
		t.Errorf("replaced: %.200q", got)
	}
}

// Vector instructions and plain arithmetic agree.
func TestAxpy(t *testing.T) {
	for _, size := range []int{0, 16, 48, 2048} {
		x, got, want := make([]float32, size), make([]float32, size), make([]float32, size)
		for i := range x {
			x[i], got[i], want[i] = float32(i%256), float32(3*i%256), float32(3*i%256)
		}
		axpy(-3, x, got)
		axpyGo(-3, x, want)
		if !slices.Equal(got, want) {
			t.Errorf("%d numbers: %v, want %v", size, got, want)
		}
	}
}
