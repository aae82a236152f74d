package postgres

import (
	"cmp"
	"net/netip"
	"path/filepath"
	"strconv"
)

// A Config says which server to connect to, and as whom.
type Config struct {
	Address  netip.AddrPort // of the server; ignored if Socket is set
	Socket   string         // the directory of the server's Unix socket
	Port     int            // a part of the socket's name; 0 = 5432
	User     string         // "" = postgres
	Database string         // "" = postgres
	Password string
	// TLS encrypts the connection, after the server has agreed; nil = it is not encrypted. A
	// server that does not agree is an error. Package postgrestls has one.
	TLS TLS
}

// DefaultPort is PostgreSQL's port.
const DefaultPort = 5432

// defaultName is the name of the user and of the database that any server has.
const defaultName = "postgres"

// SocketPath returns the path of a server's Unix socket in a directory.
func SocketPath(dir string, port int) string {
	return filepath.Join(dir, ".s.PGSQL."+strconv.Itoa(port))
}

func (c *Config) port() int { return cmp.Or(c.Port, DefaultPort) }

// where names the server for people.
func (c *Config) where() string {
	if c.Socket != "" {
		return SocketPath(c.Socket, c.port())
	}
	return c.Address.String()
}

func (c *Config) user() string { return cmp.Or(c.User, defaultName) }

func (c *Config) database() string { return cmp.Or(c.Database, defaultName) }

func (c *Config) login() login { return login{user: c.user(), password: c.Password} }

func (c *Config) startup() []byte { return startup(c.user(), c.database()) }
