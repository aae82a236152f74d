// Package netdev makes the network devices of a run that no engine makes, and finds them again
// after a crash. The alias of each device has the run's ID and the driver that made it; `ip link`
// shows it.
//
// It changes the network namespace that tare is in, which takes root. Errors of
// an ordinary user wrap fs.ErrPermission.
package netdev

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"

	"github.com/tare-bench/tare/internal/bench"
)

// A Device is a network interface that was made for a run.
type Device struct {
	Run    string
	Driver string // of the engine that made it
	Name   string
}

const (
	aliasRun    = "tare.run="
	aliasDriver = " driver="
)

func (d Device) alias() string { return aliasRun + d.Run + aliasDriver + d.Driver }

// parseAlias reads what alias writes; ok is false for a foreign alias.
func parseAlias(alias string) (run, driver string, ok bool) {
	rest, ours := strings.CutPrefix(alias, aliasRun)
	run, driver, ok = strings.Cut(rest, aliasDriver)
	return run, driver, ours && ok && bench.ValidRunID(run) == nil && bench.ValidRunID(driver) == nil
}

// IsOwn reports whether an alias belongs to a device that a run of tare has made.
func IsOwn(alias string) bool {
	_, _, ok := parseAlias(alias)
	return ok
}

// newName is a random name that no interface should have; the kernel allows 15 bytes.
func newName() string {
	var nonce [4]byte
	_, _ = rand.Read(nonce[:]) // never fails, since Go 1.24
	return "tare" + hex.EncodeToString(nonce[:])
}

// Parent makes an interface as the parent of macvlans, and brings it up. It is one end of a veth
// pair whose other end is not connected: macvlans reach one another through it, and no packet
// leaves this machine.
func Parent(run, driver string) (Device, error) {
	d := Device{run, driver, newName()}
	loose := d.Name + "x"
	pair := netlink.NewVeth(netlink.LinkAttrs{Name: d.Name})
	pair.PeerName = loose
	return d, d.add(pair, loose)
}

// A Macvlan is a run's macvlan network in an engine, on an interface that Open makes. The zero
// value is a network that does not exist yet.
type Macvlan struct {
	mu     sync.Mutex
	parent *Device // nil before and after
}

// Open makes the interface, and the network on it with make, once. If that fails, it removes both.
func (m *Macvlan) Open(run, driver string, make func(parent string) error, remove func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parent != nil {
		return nil
	}
	parent, err := Parent(run, driver)
	if err != nil {
		return fmt.Errorf("make an interface for a macvlan: %w", err)
	}
	if err := make(parent.Name); err != nil {
		return errors.Join(err, remove(), parent.Remove())
	}
	m.parent = &parent
	return nil
}

// Close removes the network with remove, and then its interface.
func (m *Macvlan) Close(remove func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parent == nil {
		return nil
	}
	if err := remove(); err != nil {
		return err
	}
	if err := m.parent.Remove(); err != nil {
		return err
	}
	m.parent = nil
	return nil
}

// add makes a device, marks it, and brings it and the others up.
func (d Device) add(link netlink.Link, others ...string) error {
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("make interface %s: %w", d.Name, err)
	}
	err := netlink.LinkSetAlias(link, d.alias())
	for _, name := range append(others, d.Name) {
		err = errors.Join(err, linkUp(name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("interface %s: %w", d.Name, err), netlink.LinkDel(link))
	}
	return nil
}

func linkUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// List returns the devices of every run that a driver has made.
func List(driver string) ([]Device, error) {
	links, err := ReadConsistent(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var all []Device
	for _, link := range links {
		run, by, ok := parseAlias(link.Attrs().Alias)
		if ok && by == driver {
			all = append(all, Device{run, by, link.Attrs().Name})
		}
	}
	return all, nil
}

// ReadConsistent reads a table of the kernel, and reads it again if it changed meanwhile, because other
// programs make interfaces and routes at any time. After a hundred attempts it returns read's
// error, netlink.ErrDumpInterrupted.
func ReadConsistent[T any](read func() ([]T, error)) (all []T, err error) {
	for range 100 {
		if all, err = read(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}

// Kind is the Leftover.Kind of a device.
const Kind = "device"

// Leftovers lists the devices that a driver made for dead runs, as leftovers of the named engine.
func Leftovers(driver, engine string, dead func(run string) bool) ([]bench.Leftover, error) {
	devices, err := List(driver)
	if err != nil {
		return nil, err
	}
	var found []bench.Leftover
	for _, d := range devices {
		if dead(d.Run) {
			found = append(found, bench.Leftover{Run: d.Run, Engine: engine, Kind: Kind, ID: d.Name})
		}
	}
	return found, nil
}

// RemoveLeftover removes a device that Leftovers listed for a driver, if it still belongs to that
// run.
func RemoveLeftover(driver string, l bench.Leftover) error {
	return Device{l.Run, driver, l.ID}.Remove()
}

// Remove removes a device, if it still belongs to that run. It is not an error if there is none.
func (d Device) Remove() error {
	link, err := netlink.LinkByName(d.Name)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("interface %s: %w", d.Name, err)
	}
	if link.Attrs().Alias != d.alias() {
		return fmt.Errorf("interface %s does not belong to run %s", d.Name, d.Run)
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("remove interface %s: %w", d.Name, err)
	}
	return nil
}
