package netpath

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/netip"
	"path/filepath"
	"strconv"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// A socket is a line of /proc/net/tcp, udp, tcp6 or udp6.
type socket struct {
	local, remote netip.AddrPort // IPv4-mapped IPv6 addresses become IPv4
	inode         uint64         // 0 if no process has it yet
}

// listensAt reports whether the socket receives packets from anywhere to an address.
func (s socket) listensAt(to netip.AddrPort) bool {
	return s.remote.Port() == 0 && s.local.Port() == to.Port() &&
		(s.local.Addr() == to.Addr() || s.local.Addr().IsUnspecified())
}

// maxSockets limits what is read from the kernel's list of sockets, in bytes.
const maxSockets = 64 << 20

// sockets are the sockets of this network namespace with the target's protocol.
func (t target) sockets() ([]socket, error) {
	var all []socket
	for _, name := range []string{t.protocol, t.protocol + "6"} {
		text, err := proc.ReadFile(filepath.Join("/proc/net", name), maxSockets)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		all = append(all, parseSockets(text)...)
	}
	return all, nil
}

// parseSockets reads the list. It skips lines of another form, such as the heading.
func parseSockets(text []byte) []socket {
	var all []socket
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) < 10 {
			continue
		}
		local, ok := parseAddress(f[1])
		remote, too := parseAddress(f[2])
		inode, err := strconv.ParseUint(string(f[9]), 10, 64)
		if ok && too && err == nil {
			all = append(all, socket{local, remote, inode})
		}
	}
	return all
}

// parseAddress reads "0100007F:1F90": the words of an address in this machine's byte order, and a
// port.
func parseAddress(text []byte) (netip.AddrPort, bool) {
	host, number, ok := bytes.Cut(text, []byte(":"))
	port, err := strconv.ParseUint(string(number), 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, false
	}
	words := make([]byte, hex.DecodedLen(len(host)))
	if _, err := hex.Decode(words, host); err != nil || len(words)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(words); i += 4 {
		binary.NativeEndian.PutUint32(words[i:], binary.BigEndian.Uint32(words[i:]))
	}
	address, ok := netip.AddrFromSlice(words)
	return netip.AddrPortFrom(address.Unmap(), uint16(port)), ok
}
