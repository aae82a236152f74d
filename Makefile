# tare: 'make run' builds it and measures this machine; 'make check' passes the tests.

GO      ?= go
GOARCH  ?= $(shell $(GO) env GOARCH)
PREFIX  ?= /usr/local
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# The compiler takes a quarter less time with more memory.
BUILD    = GOOS=linux GOGC=400 $(GO) build -trimpath
TOOL     = $(GO) tool -modfile=tools/go.mod
LDFLAGS  = -s -w -X github.com/tare-bench/tare/internal/cli.version=$(VERSION)
AGENTS   = internal/image/agentbin

export CGO_ENABLED ?= 0
# What any step compiles is what is released, so that each package is compiled once.
export GOFLAGS ?= -trimpath

.PHONY: run build pages install uninstall agent check lint test soak engines generate proofs bench fuzz FORCE

run: build ## build, and measure what a container costs on this machine
	bin/tare run

build: agent ## leave bin/tare
	GOARCH=$(GOARCH) $(BUILD) -ldflags '$(LDFLAGS)' -o bin/tare ./cmd/tare

# The program for another architecture, which lies beside the one of this machine: see docs/two-machines.md.
bin/tare-linux-%: $(AGENTS)/%/tare-agent
	GOARCH=$* $(BUILD) -ldflags '$(LDFLAGS)' -o $@ ./cmd/tare

pages: agent ## leave manual pages and completions in bin
	GOOS= GOARCH= $(GO) run ./internal/cli/clidoc install bin $(VERSION)

# Where things belong below PREFIX; packagers set DESTDIR, which is put before it.
BINDIR  ?= $(PREFIX)/bin
MANDIR  ?= $(PREFIX)/share/man/man1
BASHDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR  ?= $(PREFIX)/share/zsh/site-functions
FISHDIR ?= $(PREFIX)/share/fish/vendor_completions.d

install: build pages ## copy program, manual pages and completions below PREFIX (DESTDIR is for packagers)
	install -D -m 755 bin/tare $(DESTDIR)$(BINDIR)/tare
	install -d -m 755 $(DESTDIR)$(MANDIR)
	install -m 644 bin/man/*.1 $(DESTDIR)$(MANDIR)
	install -D -m 644 bin/completions/tare $(DESTDIR)$(BASHDIR)/tare
	install -D -m 644 bin/completions/_tare $(DESTDIR)$(ZSHDIR)/_tare
	install -D -m 644 bin/completions/tare.fish $(DESTDIR)$(FISHDIR)/tare.fish

uninstall: ## remove what 'make install' copies, and no stored run
	rm -f $(DESTDIR)$(BINDIR)/tare $(DESTDIR)$(BASHDIR)/tare $(DESTDIR)$(ZSHDIR)/_tare $(DESTDIR)$(FISHDIR)/tare.fish
	rm -f $(DESTDIR)$(MANDIR)/tare.1 $(DESTDIR)$(MANDIR)/tare-*.1

# The agent is what runs inside containers. Its entry point is not the Go
# runtime's but a few instructions that read the clock first.
agent: $(AGENTS)/$(GOARCH)/tare-agent
$(AGENTS)/%/tare-agent: FORCE
	CGO_ENABLED=0 GOARCH=$* $(BUILD) -buildvcs=false -ldflags '-s -w -E tare_start' -o $@ ./cmd/tare-agent
FORCE:

check: build $(AGENTS)/arm64/tare-agent ## everything that a change must pass, on real engines
	scripts/with-engines scripts/check

lint: build $(AGENTS)/arm64/tare-agent ## what of it needs no engines
	scripts/check lint

test: build ## the tests of it alone
	scripts/with-engines scripts/check pure race live timing

soak: build $(AGENTS)/arm64/tare-agent ## the long form, an hour and a half; run it before an issue is called resolved
	scripts/with-engines scripts/soak/run $(STAGES)

generate: build ## docs that are made from the code
	$(GO) generate ./...

proofs: agent ## the long simulations: coverage, false alarms, power; PROOFS=quarter has a quarter of the runs
	TARE_PROOFS=$(or $(PROOFS),1) $(GO) test -timeout=60m -v -run 'Coverage|Power|FalseAlarms' ./internal/analysis/... ./internal/fleet/... ./internal/report/... ./internal/run

bench: build ## tare's own cost beside a bare loop, as ratios from one run
	scripts/with-engines $(GO) test -run '^$$' -bench . -benchmem -benchtime=100x -timeout=30m ./...

engines: ## build youki and gVisor's runsc into /usr/local/bin, or into DIR
	scripts/build-engines $(DIR)

fuzz: agent ## every fuzzer for FUZZTIME
	scripts/fuzz $(or $(FUZZTIME),60s)
