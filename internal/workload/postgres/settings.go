package postgres

import (
	"slices"
	"strconv"
)

// spareConnections are for tare's own connection and those that are about to end.
const spareConnections = 20

// A place is where the server listens.
type place struct {
	addresses string // listen_addresses
	port      uint16
	socket    string // directory of its Unix socket as the server sees it; empty = none
}

// ownSettings are set by tare and by nobody else: a trial depends on them.
func ownSettings() []string {
	return []string{
		"listen_addresses", "port", "unix_socket_directories", "unix_socket_permissions", "max_connections",
		"log_destination", "logging_collector", "lc_messages", "log_checkpoints",
		"log_line_prefix", "log_min_messages", "data_directory", "hba_file", "ident_file", "config_file",
		"external_pid_file", "ssl_cert_file", "ssl_key_file", "update_process_title",
		"cluster_name", "track_wal_io_timing",
	}
}

// serverSettings are the settings of the server of a cell, by which it is started.
func serverSettings(o options, version int, at place) []setting {
	all := []setting{
		{"listen_addresses", at.addresses},
		{"port", strconv.Itoa(int(at.port))},
		{"unix_socket_directories", at.socket},
		{"max_connections", strconv.Itoa(o.connections() + spareConnections)},
		{"log_destination", "stderr"},
		{"logging_collector", "off"},
		{"lc_messages", "C"},
		{"log_checkpoints", "on"},
		{"log_line_prefix", ""},
		{"cluster_name", ""}, // it would be in the titles of processes: see servesClient
		{"fsync", o.server["fsync"]},
		{"synchronous_commit", o.server["commit"]},
		{"full_page_writes", o.server["full_page_writes"]},
		{"shared_buffers", o.server["shared_buffers"]},
		{"ssl", map[string]string{"yes": "on", "no": "off"}[o.server["ssl"]]},
	}
	if o.tls {
		all = append(all, setting{"ssl_cert_file", certificateFile}, setting{"ssl_key_file", keyFile})
	}
	if version >= 140000 {
		all = append(all, setting{"track_wal_io_timing", "on"}) // it measures: without it every sync takes no time
	}
	if o.settings == steady {
		all = append(all, steadySettings(version)...)
	}
	// What was asked for replaces what steady means.
	for _, asked := range o.set {
		all = slices.DeleteFunc(all, func(s setting) bool { return s.name == asked.name })
	}
	if o.entry { // the entry point may talk to its server by a socket, where the image has that
		all = slices.DeleteFunc(all, func(s setting) bool { return s.name == "unix_socket_directories" })
	}
	return append(all, o.set...)
}

// steadySettings keep what a server does by itself out of the trials: what falls into one
// part by chance would be noise.
func steadySettings(version int) []setting {
	all := []setting{
		{"checkpoint_timeout", "1d"},
		{"max_wal_size", "64GB"},
		{"autovacuum", "off"},
		{"jit", "off"},
		{"huge_pages", "off"},
		{"wal_sync_method", "fdatasync"},
		{"track_io_timing", "off"},
	}
	if version >= 180000 {
		// Seccomp profiles of engines forbid io_uring, so cells would differ.
		all = append(all, setting{"io_method", "worker"})
	}
	return all
}

// arguments are the settings as words of a command line.
func arguments(all []setting) []string {
	var words []string
	for _, s := range all {
		words = append(words, "-c", s.String())
	}
	return words
}

// ofPlace reports whether a setting says where the server listens, which differs between cells.
func (s setting) ofPlace() bool {
	return slices.Contains([]string{"listen_addresses", "port", "unix_socket_directories"}, s.name)
}
