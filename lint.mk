# make lint: every check a machine can do on the source. One line each; what a failing check says follows it, and
# the rest still runs. Needs nothing but Go: the tools are `tool` lines of go.mod.

.PHONY: lint

# Packages that must not know which system they run on: floor 0, and the packages that decide.
LINT_PURE = $(wildcard internal/bytesize internal/page internal/undo internal/invariant internal/errkind \
	offload/policy offload/class offload/heat offload/mix offload/sim offload/replay offload/endurance offload/sensitivity offload/rightsize \
	gpushare/fit dspm/commit train/amp doctor/rules)

# bench has its own go.mod, so that peers' libraries stay out of the product; it is held to the same rules.
define LINT_SCRIPT
failed=0
step() { # name, command…: run it, say ok or FAIL on one line, show its output only when it fails
	local name=$$1 out start=$$SECONDS; shift
	if out=$$("$$@" 2>&1); then
		printf '  ok    %-22s %3d s\n' "$$name" $$((SECONDS - start))
	else
		printf '  FAIL  %-22s %3d s\n%s\n' "$$name" $$((SECONDS - start)) "$$(sed 's/^/        /' <<<"$$out")"
		failed=$$((failed + 1))
	fi
}
formatted() { # gofmt -l exits 0 whatever it finds
	local list
	list=$$(find . -name '*.go' -not -path './.git/*' -not -path './bin/*' -print0 | xargs -0 gofmt -l) || return
	if [ -n "$$list" ]; then printf 'not formatted, run gofmt -w on:\n%s\n' "$$list"; return 1; fi
}
checklocks() { # run directly, not through vet; it exits 3 when it finds something
	$(GO) build -o bin/ gvisor.dev/gvisor/tools/checklocks/cmd/checklocks && bin/checklocks -inferred=false ./...
}
step gofmt formatted
step vet $(GO) vet ./...
step 'vet arm64' env GOARCH=arm64 $(GO) vet ./...
step 'vet darwin (pure)' env GOOS=darwin $(GO) vet $(addprefix ./,$(LINT_PURE))
$(GO) build -o bin/ honnef.co/go/tools/cmd/staticcheck || failed=1
step staticcheck bin/staticcheck ./...
step checklocks checklocks
step 'house rules' $(GO) test -count=1 ./internal/archtest
if [ -f bench/go.mod ] && [ -n "$$(find bench -name '*.go' -print -quit)" ]; then
	step 'vet bench' $(GO) -C bench vet ./...
	step 'staticcheck bench' env -C bench "$$PWD/bin/staticcheck" ./...
fi
if [ $$failed -gt 0 ]; then echo "lint: $$failed of the checks failed"; exit 1; fi
endef
export LINT_SCRIPT

lint:
	@bash -c "$$LINT_SCRIPT"
