#!/bin/sh
# The package in a bare system, without a service manager: installed, started by hand, upgraded,
# removed, purged. /1.deb and /2.deb are two revisions. $1 is the port of the portal.
set -eu
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive
STATE=/var/lib/sandstone
fail() { echo "FAILED: $*"; exit 1; }

# start: starts the daemon as the service would, and waits until it answers.
start() {
    mkdir -p /run/sandstone $STATE
    sandstone serve --portal "127.0.0.1:$1" --cache 64M 2>>/tmp/log &
    daemon=$!
    for _ in $(seq 200); do
        [ -S /run/sandstone/control.sock ] && sandstone status >/dev/null 2>&1 && return
        sleep 0.1
    done
    fail "the daemon does not answer: $(cat /tmp/log)"
}

dpkg --install /1.deb >/tmp/out 2>&1 || fail "$(cat /tmp/out)"
[ "$(sandstone --version)" = "sandstone $2" ] || fail "another version: $(sandstone --version)"
getent group sandstone >/dev/null || fail "there is no group sandstone"
sandstone serve --check
[ -z "$(dpkg --verify sandstone)" ] || fail "files differ: $(dpkg --verify sandstone)"
for file in /usr/share/man/man1/sandstone.1.gz /usr/share/bash-completion/completions/sandstone \
    /usr/share/sandstone/clients/multipath.conf /usr/share/sandstone/clients/esxi-claim-rule.sh \
    /usr/share/sandstone/prometheus/sandstone.rules.yml /usr/share/sandstone/grafana/sandstone.json; do
    [ -s $file ] || fail "$file is missing"
done

start "$1"
truncate -s 512M /tmp/disk1 /tmp/disk2
sandstone pool create tank mirror /tmp/disk1 /tmp/disk2
sandstone volume create -s -V 64M tank/vm1
sandstone lu create vm1 --volume tank/vm1
sandstone target create iqn.2026-01.org.sandstone.conformance:bare --portal "127.0.0.1:$1"
sandstone map add vm1 --every-host --target iqn.2026-01.org.sandstone.conformance:bare --lun 0
target=$(sandstone target list -H -o iqn)
# The first LUN: blocks are written and read back over iSCSI, each with its mark.
sandstone bench run "iscsi://127.0.0.1:$1/$target/0" --profile vmktree --only 8k --time 1s --destroy-data --verify \
    >/tmp/bench 2>&1 || fail "$(cat /tmp/bench)"
naa=$(sandstone lu list -H -o naa)

dpkg --install /2.deb >/tmp/out 2>&1 || fail "$(cat /tmp/out)"
[ "$(dpkg-query --show --showformat='${Version}' sandstone)" = "$2-2" ] || fail "no upgrade"
kill $daemon
wait $daemon || fail "the daemon did not stop in order: $(cat /tmp/log)"
start "$1"
[ "$(sandstone lu list -H -o naa)" = "$naa" ] || fail "the unit has another identity"
kill $daemon
wait $daemon

echo "# mine" >>/etc/sandstone/sandstone.toml
dpkg --remove sandstone >/tmp/out 2>&1 || fail "$(cat /tmp/out)"
[ -s $STATE/config.toml ] || fail "removal took the configuration"
[ -s /etc/sandstone/sandstone.toml ] || fail "removal took the settings"
dpkg --purge sandstone >/tmp/out 2>&1 || fail "$(cat /tmp/out)"
[ -s $STATE/config.toml ] || fail "a purge took the state without an answer"
grep -q "stays: it has the configuration" /tmp/out || fail "a purge says nothing: $(cat /tmp/out)"
[ ! -e /etc/sandstone ] || fail "a purge left the settings"

# purge_told ANSWER: purges at a terminal, where somebody types the answer.
purge_told() {
    dpkg --install /2.deb >/tmp/out 2>&1 || fail "$(cat /tmp/out)"
    echo "$1" | DEBIAN_FRONTEND=readline TERM=dumb script -qec "dpkg --purge sandstone" /dev/null >/tmp/out ||
        fail "$(cat /tmp/out)"
    grep -q "Delete the state folder of Sandstone" /tmp/out || fail "a purge did not ask: $(cat /tmp/out)"
}
purge_told no
[ -s $STATE/config.toml ] || fail "a purge took the state against the answer"
cp -a $STATE /tmp/state
purge_told yes
[ ! -e $STATE ] || fail "a purge left the state against the answer"
mv /tmp/state $STATE
dpkg --install /2.deb >/tmp/out 2>&1 || fail "$(cat /tmp/out)"
echo "sandstone sandstone/purge-state boolean true" | debconf-set-selections
dpkg --purge sandstone >/tmp/out 2>&1 || fail "$(cat /tmp/out)"
[ ! -e $STATE ] || fail "a purge left the state, though it was told to take it"
echo "figures: installed, first LUN verified, upgraded, removed; purges asked, kept and deleted as told"
