package http

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// nginx is the name of the program, and the value of option server.
const nginx = "nginx"

// ofImage is the value of option server for the image's own server.
const ofImage = "image"

// nginx writes the configuration, and returns the arguments. The configuration is the
// same in every cell: workers run as root because an image may lack other users, and
// requests are not logged.
func (s *fixture) nginx() ([]string, error) {
	connections, err := strconv.Atoi(s.task.Params["connections"])
	if err != nil {
		return nil, err
	}
	s.room = max(leastConnections, 2*connections)
	listen, certificate, err := s.listen()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(s.contentDir.config(), "nginx.conf")
	text := fmt.Sprintf(nginxConfig, s.workers(), s.room, s.sendfile(), listen, certificate, s.contentDir.content())
	argv := []string{nginx, "-e", "stderr", "-p", s.contentDir.state(), "-c", file}
	return argv, s.contentDir.write(file, text)
}

const leastConnections = 1024

const nginxConfig = `daemon off;
pid nginx.pid;
error_log stderr error;
user root root;
%s
events { worker_connections %d; }
http {
  access_log off;
  log_not_found off;
  default_type application/octet-stream;
  sendfile %s;
  tcp_nopush on;
  keepalive_timeout 65s;
  keepalive_requests 1000000000;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  server {
    listen %s backlog=4096;
    %sroot %s;
  }
}
`

// workers configures one worker for each CPU of the server, pinned to it.
func (s *fixture) workers() string {
	if len(s.cpus.server) == 0 {
		return "worker_processes 1;"
	}
	masks := make([]string, len(s.cpus.server))
	for i, cpu := range s.cpus.server {
		masks[i] = "1" + strings.Repeat("0", cpu)
	}
	return fmt.Sprintf("worker_processes %d;\nworker_cpu_affinity %s;", len(masks), strings.Join(masks, " "))
}

// sendfile is off for HTTP/2 without TLS: nginx would send the header and the file in
// separate segments, and wait until the first is acknowledged, which the client's kernel
// does after 40 ms.
func (s *fixture) sendfile() string {
	if s.task.Params["http2"] == "yes" && s.task.Params["tls"] != "yes" {
		return "off"
	}
	return "on"
}

// listen returns the options of the listen directive, and the directives for the
// certificate, if TLS needs one.
func (s *fixture) listen() (listen, certificate string, err error) {
	listen = strconv.Itoa(int(s.port))
	if s.task.Params["tls"] == "yes" {
		cert, key, err := s.contentDir.certify()
		if err != nil {
			return "", "", err
		}
		listen += " ssl"
		certificate = fmt.Sprintf("ssl_certificate %s;\n    ssl_certificate_key %s;\n    ", cert, key)
	}
	if s.task.Params["http2"] == "yes" {
		listen += " http2"
	}
	return listen, certificate, nil
}
