#!/bin/sh
# The .rpm in a bare system whose package manager is rpm's alone: installed, upgraded, removed. It
# runs outside, with the folder of the system as $1, and the version as $2. 1.rpm and 2.rpm are two
# revisions.
set -eu
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
ROOT=$1
SETTINGS=$ROOT/etc/sandstone/sandstone.toml
fail() { echo "FAILED: $*"; exit 1; }
# manager OPTIONS…: rpm for the system.
manager() { rpm --root "$ROOT" --dbpath /var/lib/rpm "$@"; }
inside() { chroot "$ROOT" "$@"; }

for revision in 1 2; do
    rpm --checksig "$ROOT/$revision.rpm" >/tmp/out 2>&1 || fail "$(cat /tmp/out)"
done
manager --initdb
# The libraries that rpm does not know come from dpkg.
manager --install --nodeps "$ROOT/1.rpm" || fail "rpm does not install"
[ "$(inside sandstone --version)" = "sandstone $2" ] || fail "another version"
inside getent group sandstone >/dev/null || fail "there is no group sandstone"
inside sandstone serve --check
for file in $(rpm -qpl "$ROOT/1.rpm"); do
    [ -s "$ROOT$file" ] || fail "$file is missing or empty"
done
manager --verify --nodeps sandstone || fail "files are not as the package has them"
for requirement in $(rpm -qp --requires "$ROOT/1.rpm" | grep '^/'); do
    [ -x "$ROOT$requirement" ] || fail "$requirement is missing"
done

mkdir -p "$ROOT/var/lib/sandstone"
echo "units = []" >"$ROOT/var/lib/sandstone/config.toml"
echo "# mine" >>"$SETTINGS"
manager --upgrade --nodeps "$ROOT/2.rpm" || fail "rpm does not upgrade"
[ "$(manager -q --queryformat '%{RELEASE}' sandstone)" = 2 ] || fail "no upgrade"
tail -n 1 "$SETTINGS" | grep -q '# mine' || fail "the upgrade took the settings"

manager --erase sandstone >/tmp/out 2>&1 || fail "$(cat /tmp/out)"
grep -q 'stays' /tmp/out || fail "the removal does not say what stays: $(cat /tmp/out)"
[ ! -e "$ROOT/usr/bin/sandstone" ] || fail "the removal left the program"
grep -q '# mine' "$SETTINGS.rpmsave" || fail "the removal took the settings"
[ -s "$ROOT/var/lib/sandstone/config.toml" ] || fail "the removal took the state"
echo "figures: digests hold, installed, verified, upgraded, removed; settings and state stay"
