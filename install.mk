# build, install, uninstall. Included by the Makefile.
#
#   make build                          bin/spillway
#   make install                        into /usr/local and /etc, as root
#   make install DESTDIR=/tmp/stage     the same tree below a folder, for packagers; no root, no systemctl
#   make uninstall                      stop it, undo what it changed, take everything away but a changed config
#
# Installing twice is harmless: the binary is replaced, a configuration that exists is kept.

PREFIX  ?= /usr/local
DESTDIR ?=
SYSCONF ?= /etc
VERSION ?= 0.1.0-dev

BINDIR  = $(DESTDIR)$(PREFIX)/bin
UNITDIR = $(DESTDIR)$(PREFIX)/lib/systemd/system
BASHDIR = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSHDIR  = $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISHDIR = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
CONFDIR = $(DESTDIR)$(SYSCONF)/spillway

# systemctl is asked only when installing into the running system.
LIVE = [ -z "$(DESTDIR)" ] && [ -d /run/systemd/system ]

.PHONY: build install uninstall

build:
	CGO_ENABLED=0 $(GO) build -buildvcs=auto -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/spillway ./cmd/spillway

install: build
	@mkdir -p "$(BINDIR)" "$(UNITDIR)" "$(BASHDIR)" "$(ZSHDIR)" "$(FISHDIR)" "$(CONFDIR)" \
	  || { echo "make install writes to $(DESTDIR)$(PREFIX) and $(CONFDIR): run it as root, or give DESTDIR=FOLDER"; exit 1; }
	@install -m 0755 bin/spillway "$(BINDIR)/.spillway.new" && mv -f "$(BINDIR)/.spillway.new" "$(BINDIR)/spillway"
	@sed 's|/usr/local/bin/spillway|$(PREFIX)/bin/spillway|g; s|/etc/spillway/|$(SYSCONF)/spillway/|g' deploy/spillway.service > "$(UNITDIR)/spillway.service"
	@chmod 0644 "$(UNITDIR)/spillway.service"
	@bin/spillway completion bash > "$(BASHDIR)/spillway"
	@bin/spillway completion zsh > "$(ZSHDIR)/_spillway"
	@bin/spillway completion fish > "$(FISHDIR)/spillway.fish"
	@if [ -e "$(CONFDIR)/spillway.yaml" ]; then echo "kept $(CONFDIR)/spillway.yaml"; \
	  else install -m 0644 deploy/spillway.yaml "$(CONFDIR)/spillway.yaml"; fi
	@if $(LIVE); then systemctl daemon-reload; fi
	@echo "installed $(PREFIX)/bin/spillway, its systemd unit, shell completions and $(SYSCONF)/spillway/spillway.yaml$(if $(DESTDIR), below $(DESTDIR))"
	@echo "next: put roots into $(SYSCONF)/spillway/spillway.yaml, check it with 'spillway config check FILE', then 'systemctl enable --now spillway'"

uninstall:
	@if $(LIVE); then systemctl disable --now spillway.service 2>/dev/null || true; fi
	@if [ -z "$(DESTDIR)" ] && [ -x "$(BINDIR)/spillway" ]; then "$(BINDIR)/spillway" restore $(if $(wildcard $(CONFDIR)/spillway.yaml),--config "$(CONFDIR)/spillway.yaml"); fi
	@rm -f "$(BINDIR)/spillway" "$(UNITDIR)/spillway.service" "$(BASHDIR)/spillway" "$(ZSHDIR)/_spillway" "$(FISHDIR)/spillway.fish"
	@if cmp -s deploy/spillway.yaml "$(CONFDIR)/spillway.yaml"; then rm -f "$(CONFDIR)/spillway.yaml"; fi
	@if [ -e "$(CONFDIR)/spillway.yaml" ]; then echo "kept $(CONFDIR)/spillway.yaml: it was changed"; else rmdir "$(CONFDIR)" 2>/dev/null || true; fi
	@if $(LIVE); then systemctl daemon-reload; fi
	@echo "uninstalled spillway$(if $(DESTDIR), below $(DESTDIR))"
