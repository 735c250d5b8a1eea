#!/bin/bash
# deploy/apt.sh WHY PROGRAM=PACKAGE...
# Installs the Debian packages whose program is missing, and says which and why. Never fails: what could not be
# installed is named, and whoever needs it says what still works without it.
set -u
why=$1; shift
missing=()
for pair in "$@"; do
	command -v "${pair%%=*}" >/dev/null 2>&1 || missing+=("${pair#*=}")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
	echo "note: no apt-get here; going on without ${missing[*]} ($why)"
	exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "note: not root; going on without ${missing[*]} ($why). Install them with: sudo apt-get install -y ${missing[*]}"
	exit 0
fi
echo "installing Debian packages: ${missing[*]} ($why)"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# A package that brings a service must not start it: Spillway's tests start their own, and others' ports are not ours.
policy=/usr/sbin/policy-rc.d
own_policy=
if [ ! -e $policy ]; then
	printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy && own_policy=1
fi
install() { apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=120 "${missing[@]}" >"$log" 2>&1; }
if ! install; then
	apt-get update -o DPkg::Lock::Timeout=120 >>"$log" 2>&1
	install || { echo "note: could not install ${missing[*]}; going on without. apt-get said:"; tail -n 3 "$log"; }
fi
[ -n "$own_policy" ] && rm -f $policy
exit 0
