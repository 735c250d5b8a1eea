#!/bin/bash
# Runs every test this machine can run and prints go's JSON for gotestsum: see test.mk.
# Stages, in this order: what needs no kernel feature (race detector on, packages side by side); the same with
# internal checks compiled in; what changes kernel state, the packages one after the other; bench/; the real
# binaries; guests. All stages run even when one fails. Stages can be named as arguments.
set -u
cd "$(dirname "$0")/.."
GO=${GO:-go}
limit=${TEST_TIMEOUT:-10m} # of one package's tests
stages=("${@:-all}")
failed=0

wanted() { [[ " ${stages[*]} " == *" all "* || " ${stages[*]} " == *" $1 "* ]]; }
run() { # stage, folder of the module, arguments of go test
	local name=$1 dir=$2 began=$SECONDS
	shift 2
	echo "stage $name"
	"$GO" test -C "$dir" -json -timeout="$limit" "$@" 2>&1 || failed=1
	echo "stage $name: $((SECONDS - began)) s"
}

if [ "$(id -u)" -ne 0 ]; then
	echo "not root: tests of cgroups, swap and the worker are skipped; the list at the end names them"
fi
race=(-race)
if ! command -v "$("$GO" env CC)" >/dev/null 2>&1; then
	echo "no C compiler: the race detector is off"
	race=()
fi

# A package whose tests ask what the kernel or the machine has (internal/probe) counts as privileged: found, not
# listed, so that a new package cannot be forgotten.
format='{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}{{end}}'
plain=() kernel=() e2e=() guest=()
while read -r pkg uses; do
	case $pkg in
	*/test/e2e*) e2e+=("$pkg") ;;
	*/test/guest*) guest+=("$pkg") ;;
	*/internal/archtest) kernel+=("$pkg") ;; # reads the whole tree, which go's test cache would not notice
	*) case "$uses " in
		*/internal/probe\ *) kernel+=("$pkg") ;;
		*) plain+=("$pkg") ;;
		esac ;;
	esac
done < <("$GO" list -f "$format" ./... | grep .)
if [ $((${#plain[@]} + ${#kernel[@]})) -eq 0 ]; then
	echo "no package with tests found" >&2
	exit 1
fi

if wanted unit && [ ${#plain[@]} -gt 0 ]; then run unit . "${race[@]}" "${plain[@]}"; fi
if wanted invariants && grep -rqE --include='*.go' '^//go:build .*\binvariants\b' .; then
	run invariants . -tags invariants "${plain[@]}"
fi
if wanted privileged && [ ${#kernel[@]} -gt 0 ]; then run privileged . "${race[@]}" -p 1 -count=1 "${kernel[@]}"; fi
if wanted bench && [ -f bench/go.mod ]; then run bench bench ./...; fi
if wanted e2e && [ ${#e2e[@]} -gt 0 ]; then run e2e . -p 1 -count=1 "${e2e[@]}"; fi
if wanted guest && [ ${#guest[@]} -gt 0 ]; then run guest . -p 1 -count=1 "${guest[@]}"; fi
exit $failed
