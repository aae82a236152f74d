package trace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// symbolFile lists the kernel's functions.
const symbolFile = "/proc/kallsyms"

// symbols are the kernel's functions in order of their addresses.
type symbols struct {
	addresses []uint64
	names     []string
}

// of is the name of the function that contains an address, as its source calls it; empty if there is none.
func (s symbols) of(address uint64) string {
	i, exact := slices.BinarySearch(s.addresses, address)
	if !exact {
		i--
	}
	if i < 0 {
		return ""
	}
	name, _, _ := strings.Cut(s.names[i], ".") // compilers add .isra.0, .constprop.0, .cold
	return name
}

// readSymbols reads the kernel's functions.
func readSymbols() (symbols, error) {
	text, err := os.ReadFile(symbolFile)
	if err != nil {
		return symbols{}, fmt.Errorf("names of the kernel's functions: %w", err)
	}
	return parseSymbols(text), nil
}

func parseSymbols(text []byte) symbols {
	type symbol struct {
		address uint64
		name    string
	}
	var all []symbol
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) < 3 || !bytes.Contains([]byte("TtWw"), f[1]) {
			continue
		}
		if address, err := strconv.ParseUint(string(f[0]), 16, 64); err == nil && address != 0 {
			all = append(all, symbol{address, string(f[2])})
		}
	}
	slices.SortStableFunc(all, func(a, b symbol) int { return cmp.Compare(a.address, b.address) })
	s := symbols{make([]uint64, 0, len(all)), make([]string, 0, len(all))}
	for i, one := range all {
		if i > 0 && one.address == all[i-1].address {
			continue // another name of the same
		}
		s.addresses, s.names = append(s.addresses, one.address), append(s.names, one.name)
	}
	return s
}

// errHidden is the error of a kernel that hides the addresses of its functions.
var errHidden = errors.New("the kernel hides the addresses of its functions, so waits could not be named: " +
	"run as root, or with CAP_SYSLOG, and set the sysctl kernel.kptr_restrict to 0 or 1")

// symbolsShown refuses a kernel that hides the addresses of its functions; the error wraps
// bench.ErrUnsupported.
func symbolsShown() error {
	f, err := os.Open(symbolFile)
	if err != nil {
		return fmt.Errorf("%w: names of the kernel's functions: %w", bench.ErrUnsupported, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	const enough = 256 << 10
	head, err := io.ReadAll(io.LimitReader(f, enough))
	if err != nil || len(parseSymbols(head).addresses) == 0 {
		return fmt.Errorf("%w: %w", bench.ErrUnsupported, errHidden)
	}
	return nil
}
