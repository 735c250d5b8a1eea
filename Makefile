# The commands of this repository. Each does its own set-up and says what it installs.
#   make demo   run the main job on this machine (root, about four minutes)
#   make test   run every test this machine can run
# Recipes live beside what they belong to: install.mk, test.mk, lint.mk.

SHELL := /bin/bash
.DEFAULT_GOAL := help
GO ?= go

.PHONY: help build demo test lint soak bench-offload install uninstall clean

help:
	@sed -n 's/^#   //p' Makefile
	@echo "also: build lint soak bench-offload install uninstall clean"

include install.mk
include test.mk
include lint.mk

# The demo needs a real redis-server; without one it uses the built-in key-value server and says so.
demo: build
	@deploy/apt.sh "the demo's two redis twins" redis-server=redis-server
	@mkdir -p bench/out
	@bin/spillway demo offload --results bench/out/demo.json $(DEMOFLAGS)

# Five demo runs and the other figures of docs/bench/offload.md, about 40 minutes. QUICK=1: 6 minutes, without G2.
# GOAL=G2 runs one goal, LONG=1 gives G2 three pairs of blocks instead of one. GOAL=W runs the workloads too, about
# 70 minutes more; GOAL=W.nginx one of them, GOAL=W.redis one server under every law, LAW=tmo the others under that law.
# GOAL=G9 kills the daemon 200 times, about 20 minutes, and is in no group.
bench-offload: build
	@deploy/apt.sh "the demo's two redis twins" redis-server=redis-server
	@$(if $(filter W W.%,$(GOAL)),deploy/apt.sh "the benchmark's other servers; without one its workload is left out" \
		memcached=memcached nginx=nginx /usr/lib/postgresql/15/bin/postgres=postgresql-15)
	cd bench && $(GO) run ./offload -spillway ../bin/spillway -out out/offload.json $(if $(QUICK),-quick) $(if $(LONG),-long) $(if $(GOAL),-goal $(GOAL)) $(if $(LAW),-law $(LAW))

# The daemon on cgroups that come and go, killed and started again; make test does three minutes of it.
soak:
	SPILLWAY_SOAK=$(or $(SOAK),1h) $(GO) test -count=1 -timeout 3h -v ./test/soak

clean:
	rm -rf bin bench/out
