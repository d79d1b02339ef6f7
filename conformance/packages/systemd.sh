# The package under a real systemd. Two clients use the service meanwhile: our initiator on the
# host, with verification, and open-iscsi of this guest. $1 is the version, $2 the name of the
# host's initiator, $3 the least time in seconds for which the host loads its unit.
. /lab/basics.sh
export DEBIAN_FRONTEND=noninteractive
VERSION=$1 HOST=$2 SECONDS_OF_LOAD=$3
PORTAL=10.77.0.2:3260
STATE=/var/lib/sandstone
fail() { echo "FAILED: $*"; exit 1; }
# However the script ends too early, the service's log tells more.
trap '[ $? = 0 ] || journalctl --no-pager -o short-monotonic -u sandstone | tail -n 25' EXIT
main_pid() { systemctl show -P MainPID sandstone; }
answers() { sandstone lu list >/dev/null 2>&1; }
# is_another PID: tells whether another daemon than PID answers.
is_another() {
    local now
    now=$(main_pid)
    [ "$now" != 0 ] && [ "$now" != "$1" ] && answers
}
install() { dpkg --install "$@" >/tmp/out 2>&1 || fail "$(cat /tmp/out)"; }
# configured: what dpkg does at the end of an upgrade. Unpacking takes minutes where a processor is
# emulated, so later upgrades do only this.
configured() { /var/lib/dpkg/info/sandstone.postinst configure "$VERSION-1" >/tmp/out 2>&1 || fail "$(cat /tmp/out)"; }
# logged PRIORITY TEXT: tells whether the journal has an entry of the service with both.
logged() { journalctl --no-pager -o json -u sandstone | grep "\"PRIORITY\":\"$1\"" | grep "$2" >/dev/null; }

# The first installation starts the service.
install /1.deb
systemctl is-enabled --quiet sandstone || fail "the service is not enabled"
systemctl is-active --quiet sandstone || fail "the installation did not start the service"
[ "$(systemctl show -P Type sandstone)" = notify ] || fail "the service does not notify"
status=$(systemctl show -P StatusText sandstone)
case $status in serving*) ;; *) fail "the manager was told '$status'" ;; esac
[ "$(stat -c '%a %U' $STATE)" = "700 root" ] || fail "the state folder is open to others"
[ -S /run/sandstone/control.sock ] || fail "there is no control socket"
ss -Hltn 'sport = :8443' | grep -q LISTEN || fail "the console does not listen"
until_true 50 logged 6 SANDSTONE_VERSION || fail "the journal has no fields"
exposure=$(systemd-analyze security --no-pager sandstone | sed -n 's/.*Overall exposure level[^:]*: \([0-9.]*\).*/\1/p')
[ -n "$exposure" ] || fail "systemd-analyze tells no exposure"
note "active: $status; exposure $exposure of 10"

# The first LUN, for the host; and another for the kernel of this guest.
sandstone pool create tank /dev/vdb
ls -l "/proc/$(main_pid)/fd" | grep -q io_uring || fail "io_uring is not in use"
sandstone share vm1 -s 256M --host "$HOST" --client linux
target=$(sandstone target list -H -o iqn)
name=$(sed -n 's/^InitiatorName=//p' /etc/iscsi/initiatorname.iscsi)
sandstone share vm2 -s 64M --host "$name" --client linux
naa=$(sandstone lu list -H -o name,naa)
host stranger "$target" || fail "a stranger was let in"
logged 4 'iqn.2026-01.org.sandstone.conformance:stranger' || fail "the journal does not warn of a stranger"

modprobe -a iscsi_tcp sd_mod
cat >/etc/iscsi/iscsid.conf <<'CONF'
iscsid.startup = /bin/true
node.startup = manual
node.session.timeo.replacement_timeout = 120
node.conn[0].timeo.noop_out_interval = 2
node.conn[0].timeo.noop_out_timeout = 4
node.session.initial_login_retry_max = 8
CONF
iscsid
iscsiadm -m discovery -t sendtargets -p $PORTAL >/dev/null
iscsiadm -m node -T "$target" -p $PORTAL --login >/dev/null
disk=/dev/disk/by-id/wwn-0x$(echo "$naa" | sed -n 's/^vm2[[:space:]]*naa\.//p')
until_true 150 test -b "$disk" || fail "the disk of vm2 does not come"
note "logged in: $disk"

# The kernel's part: 8 MiB are written directly, again and again, each time with other bytes.
dd if=/dev/urandom of=/tmp/pattern bs=1M count=8 status=none
rotated() { tail -c +$(($1 * 4096 + 1)) /tmp/pattern; head -c $(($1 * 4096)) /tmp/pattern; }
writer() {
    local number=0
    while [ ! -e /tmp/stop ]; do
        number=$((number + 1))
        rotated $((number % 2048)) |
            dd of="$disk" bs=64k iflag=fullblock oflag=direct conv=fsync,notrunc status=none || return 1
        echo $number >/tmp/written
    done
}
written() { cat /tmp/written 2>/dev/null || echo 0; }
# writes_on: waits until open-iscsi has written since.
writes_on() {
    local before
    before=$(written)
    until_true 300 eval '[ $(written) -gt '"$((before + 1))"' ]' || fail "open-iscsi writes no more"
}
loads() { host load running || fail "the host's load was over before: $*"; }
writer &
writing=$!

# An upgrade under both loads. Settings of the administrator stay as they are. The host begins
# before the restart only, because its time is limited.
echo '# mine' >>/etc/sandstone/sandstone.toml
mkdir -p /etc/systemd/system/sandstone.service.d
printf '[Service]\nWatchdogSec=20s\n' >/etc/systemd/system/sandstone.service.d/soon.conf
before=$(main_pid)
dpkg --unpack /2.deb >/tmp/out 2>&1 || fail "$(cat /tmp/out)"
[ "$(main_pid)" = "$before" ] || fail "the daemon was restarted before its package was complete"
# The slower this machine was until now, the longer the load must last.
seconds=$((SECONDS_OF_LOAD + 2 * $(cut -d. -f1 /proc/uptime)))
host load begin "$target" "$seconds" || fail "the host cannot load its unit"
writes_on
dpkg --configure sandstone >/tmp/out 2>&1 || fail "$(cat /tmp/out)"
is_another "$before" || until_true 300 is_another "$before" || fail "the upgrade did not restart the daemon"
[ "$(dpkg-query --show --showformat='${Version}' sandstone)" = "$VERSION-2" ] || fail "no upgrade"
grep -q '# mine' /etc/sandstone/sandstone.toml || fail "the upgrade took the settings"
[ "$(sandstone lu list -H -o name,naa)" = "$naa" ] || fail "units have other identities"
writes_on
loads upgrade
note "upgraded under load: pid $before -> $(main_pid)"

# A daemon that hangs: the watchdog ends it, and starts another.
before=$(main_pid)
kill -STOP "$before"
until_true 300 is_another "$before" || fail "the watchdog did nothing"
journalctl --no-pager -u sandstone | grep -q 'Watchdog timeout' || fail "the journal has no watchdog"
writes_on
loads hang
note "the watchdog ended pid $before; $(main_pid) serves"

while host load running 2>/dev/null; do sleep 1; done
load=$(host load end) || fail "the host's data"
note "the host: $load"

# The new program refuses the settings: the running daemon goes on.
sed -i '1i treads = 2' /etc/sandstone/sandstone.toml
before=$(main_pid)
configured
grep -q 'did you mean threads' /tmp/out || fail "the package says nothing: $(cat /tmp/out)"
[ "$(main_pid)" = "$before" ] || fail "the daemon was restarted with wrong settings"
sed -i '/treads/d' /etc/sandstone/sandstone.toml
writes_on
rm -r /etc/systemd/system/sandstone.service.d
systemctl daemon-reload

# open-iscsi ends, and reads back what it wrote.
touch /tmp/stop
wait $writing || fail "a write of open-iscsi failed"
[ "$(dd if="$disk" bs=64k count=128 iflag=direct status=none | sha256sum)" = \
    "$(rotated $(($(written) % 2048)) | sha256sum)" ] || fail "the unit does not hold what was written last"
iscsiadm -m node -u >/dev/null
note "open-iscsi wrote 8 MiB $(written) times"

# The stop is clean, and a stopped service stays stopped at an upgrade.
systemctl stop sandstone
[ "$(systemctl show -P Result,ExecMainStatus sandstone | tr '\n' ' ')" = "success 0 " ] || fail "the stop was not clean"
until_true 50 logged 6 'SIGTERM' || fail "the journal does not tell why the daemon stopped"
configured
if systemctl is-active --quiet sandstone; then fail "an upgrade started a stopped service"; fi
systemctl start sandstone
[ "$(sandstone lu list -H -o name,naa)" = "$naa" ] || fail "units are not what they were"

dpkg --remove sandstone >/tmp/out 2>&1 || fail "$(cat /tmp/out)"
if systemctl is-active --quiet sandstone; then fail "removal left the daemon running"; fi
[ -s $STATE/config.toml ] || fail "removal took the configuration"
dpkg --purge sandstone >/tmp/out 2>&1 || fail "$(cat /tmp/out)"
[ -s $STATE/config.toml ] || fail "a purge took the state without an answer"
install /2.deb
systemctl is-active --quiet sandstone || fail "a new installation did not start the service"
[ "$(sandstone lu list -H -o name,naa)" = "$naa" ] || fail "a new installation lost the units"
# A person answers the question of the purge in a terminal.
echo yes | DEBIAN_FRONTEND=readline TERM=dumb script -qec "dpkg --purge sandstone" /dev/null >/tmp/out ||
    fail "$(cat /tmp/out)"
grep -q 'Delete the state folder of Sandstone' /tmp/out || fail "the purge did not ask: $(cat /tmp/out)"
[ ! -e $STATE ] || fail "the purge left the state, though it was told to take it"
echo "figures: exposure $exposure; upgrade and watchdog under two loads: $load; open-iscsi $(written) × 8 MiB, all match"
