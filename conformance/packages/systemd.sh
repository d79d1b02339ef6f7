#!/bin/bash
# The package under a real systemd, as a service of a guest that is its own client by open-iscsi:
# first LUN, upgrade during writes, a hang that the watchdog ends. $1 is the version.
set -eu
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive
note() { echo "== $(cut -d' ' -f1 /proc/uptime) $*"; }
fail() {
    echo "FAILED: $*"
    journalctl --no-pager -u sandstone | tail -n 30
    exit 1
}
until_true() {
    local tries=$1
    shift
    for ((; tries > 0; tries--)); do
        "$@" && return 0
        sleep 0.2
    done
    return 1
}
main_pid() { systemctl show -P MainPID sandstone; }
is_another() { local now; now=$(main_pid); [ "$now" != 0 ] && [ "$now" != "$1" ] && sandstone status >/dev/null 2>&1; }

ip link set lo up
dpkg --install /1.deb >/tmp/out 2>&1 || fail "$(cat /tmp/out)"
systemctl is-enabled --quiet sandstone || fail "the service is not enabled"
systemctl is-active --quiet sandstone || fail "the installation did not start the service"
[ "$(stat -c '%a' /var/lib/sandstone)" = 700 ] || fail "the state folder is open to others"
[ -S /run/sandstone/control.sock ] || fail "no control socket"
until_true 50 sh -c 'journalctl --no-pager -o json -u sandstone | grep -q SANDSTONE_VERSION' ||
    fail "the journal has no fields"
note "the service is active, pid $(main_pid)"

# io_uring is allowed by the filter of system calls, and works.
if ! ls -l "/proc/$(main_pid)/fd" | grep -q io_uring; then fail "io_uring is not in use"; fi

# A pool on a disk, and the first LUN.
sandstone pool create tank /dev/vdb
name=$(sed -n 's/^InitiatorName=//p' /etc/iscsi/initiatorname.iscsi)
sandstone share vm1 -s 128M --host "$name" --client linux
target=$(sandstone target list -H -o iqn)
cat >/etc/iscsi/iscsid.conf <<'CONF'
iscsid.startup = /bin/true
node.startup = manual
node.session.timeo.replacement_timeout = 120
node.conn[0].timeo.noop_out_interval = 2
node.conn[0].timeo.noop_out_timeout = 4
node.session.initial_login_retry_max = 8
CONF
iscsid
iscsiadm -m discovery -t sendtargets -p 127.0.0.1:3260 >/dev/null
iscsiadm -m node -T "$target" -p 127.0.0.1:3260 --login >/dev/null
until_true 100 sh -c 'ls /dev/disk/by-id/wwn-0x6* >/dev/null 2>&1' || fail "the disk does not come"
disk=$(ls /dev/disk/by-id/wwn-0x6* | head -n 1)
note "logged in: $disk"

# write_round NUMBER: fills the unit with a pattern of its own by direct writes.
dd if=/dev/urandom of=/tmp/pattern bs=1M count=8 status=none
rotated() { tail -c +$(($1 * 4096 + 1)) /tmp/pattern; head -c $(($1 * 4096)) /tmp/pattern; }
write_round() { rotated "$1" | dd of="$disk" bs=64k iflag=fullblock oflag=direct conv=fsync,notrunc status=none; }
check_round() {
    [ "$(dd if="$disk" bs=64k count=128 iflag=direct status=none | sha256sum)" = "$(rotated "$1" | sha256sum)" ] ||
        fail "the unit does not hold what was written last"
}
# writer: writes rounds until /tmp/stop exists. A failed write ends it without /tmp/last.
writer() {
    local number=0
    rm -f /tmp/last
    while [ ! -e /tmp/stop ]; do
        number=$(((number + 1) % 1000))
        write_round $number
    done
    echo $number >/tmp/last
}
# during COMMAND…: runs the command while the writer writes, and checks what it wrote.
during() {
    local before
    before=$(main_pid)
    rm -f /tmp/stop
    writer &
    local writing=$!
    sleep 1
    "$@"
    until_true 300 is_another "$before" || fail "no other daemon came after: $*"
    sleep 1
    touch /tmp/stop
    wait $writing || fail "a write failed during: $*"
    check_round "$(cat /tmp/last)"
    note "$* went by under writes; pid $before -> $(main_pid)"
}

upgrade() { dpkg --install /2.deb >/tmp/out 2>&1 || fail "$(cat /tmp/out)"; }
during upgrade
[ "$(dpkg-query --show --showformat='${Version}' sandstone)" = "$1-2" ] || fail "no upgrade"

# A daemon that hangs: the watchdog ends it and starts another.
mkdir -p /etc/systemd/system/sandstone.service.d
printf '[Service]\nWatchdogSec=4s\n' >/etc/systemd/system/sandstone.service.d/soon.conf
systemctl daemon-reload
systemctl restart sandstone
hang() { kill -STOP "$(main_pid)"; }
during hang
journalctl --no-pager -u sandstone | grep -qi watchdog || fail "the watchdog is not in the journal"

# An upgrade whose settings are wrong leaves the running daemon alone.
echo 'treads = 2' >/etc/sandstone/sandstone.toml
before=$(main_pid)
dpkg --install --force-confold /2.deb >/tmp/out 2>&1 || fail "$(cat /tmp/out)"
grep -q 'did you mean threads' /tmp/out || fail "the package says nothing: $(cat /tmp/out)"
[ "$(main_pid)" = "$before" ] || fail "the daemon was restarted with wrong settings"

iscsiadm -m node -u >/dev/null
dpkg --remove sandstone >/tmp/out 2>&1 || fail "$(cat /tmp/out)"
if systemctl is-active --quiet sandstone; then fail "removal left the daemon running"; fi
[ -s /var/lib/sandstone/config.toml ] || fail "removal took the configuration"
echo "figures: active, io_uring in use, upgraded and ended by the watchdog under writes, all data matches"
