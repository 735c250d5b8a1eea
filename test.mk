# make test: every test this machine can run, in under 25 minutes on two cores. It ends with the tests that were
# skipped and why. STAGES="unit privileged" runs some stages only: unit invariants privileged bench e2e guest.

.PHONY: test test-deps

# A service that comes with a package is not started: the tests start their own.
test-deps:
	@deploy/apt.sh "tests against a real server; without it they are skipped" redis-server=redis-server
	@deploy/apt.sh "tests of the dashboard in a real browser; without it they are skipped" chromium=chromium
	@deploy/apt.sh "tests on cgroup v2 in guests, whose Debian kernel is downloaded but not installed; without them they are skipped" \
		qemu-system-x86_64=qemu-system-x86 mkfs.ext4=e2fsprogs
	@deploy/apt.sh "the race detector; without it it is off" gcc=gcc gcc=libc6-dev

# CGO is for the race detector; the product is built without. run.sh reports all but go's JSON as plain lines.
test: build test-deps
	@CGO_ENABLED=1 $(GO) tool gotestsum --format pkgname --format-hide-empty-pkg --format-icons text \
		--ignore-non-json-output-lines --raw-command -- test/run.sh $(STAGES)
