package image

import (
	"slices"
	"strconv"
	"strings"
)

// Port is the TCP port on which the image's service listens, as the image states it; 0 if it states
// none or several.
func (i *Image) Port() uint16 {
	var only uint16
	for name := range i.config.ExposedPorts {
		number, protocol, _ := strings.Cut(name, "/")
		port, err := strconv.ParseUint(number, 10, 16)
		switch {
		case err != nil || protocol != "" && protocol != "tcp":
		case only != 0:
			return 0
		default:
			only = uint16(port)
		}
	}
	return only
}

// HealthCheck is the image's health check: a program and its arguments, to be run in the container;
// nil if it has none.
func (i *Image) HealthCheck() []string {
	check := i.config.Healthcheck
	if check == nil || len(check.Test) < 2 {
		return nil
	}
	switch argv := check.Test[1:]; check.Test[0] {
	case "CMD":
		return slices.Clone(argv)
	case "CMD-SHELL":
		return []string{"/bin/sh", "-c", argv[0]}
	}
	return nil
}
