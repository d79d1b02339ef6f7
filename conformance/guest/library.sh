# Functions that the scenarios share. A scenario is called with: TARGET PORTAL0 PORTAL1
set -eu
TARGET=$1
PORTALS=("$2" "$3")

note() { echo "== $(cut -d' ' -f1 /proc/uptime) $*"; }
fail() { echo "FAILED: $*"; exit 1; }
now_s() { cut -d. -f1 /proc/uptime; }

# host WORDS…: asks the host, prints its answer, and fails if the host fails.
host() {
    local answer
    {
        flock 9
        echo "$*" >&3
        IFS= read -r -t 60 answer <&3 || answer="error no answer"
    } 9>/run/host.lock
    case $answer in
        ok*) echo "${answer#ok }" ;;
        *) echo "host $*: $answer" >&2; return 1 ;;
    esac
}

# until_true TRIES COMMAND…: runs COMMAND every 0.2 s until it succeeds, TRIES times at most.
until_true() {
    local tries=$1
    shift
    for ((; tries > 0; tries--)); do
        "$@" && return 0
        sleep 0.2
    done
    return 1
}

# start_daemons [HEADER_DIGEST DATA_DIGEST]: starts the daemons with short timeouts, so that a
# scenario ends soon. The replacement time-out is 1 s: a lost path fails over, and multipath queues
# (no_path_retry) if no path is left. PING_INTERVAL=1 sends the pings that find a silent path. Other
# scenarios send none: a guest on a busy machine may be too late for the answers, and reconnects.
start_daemons() {
    modprobe -a iscsi_tcp sd_mod sg dm_multipath dm_round_robin dm_service_time scsi_dh_alua
    cat >/etc/multipath.conf <<'CONF'
defaults {
    user_friendly_names no
    find_multipaths no
    path_grouping_policy group_by_prio
    detect_prio yes
    failback immediate
    polling_interval 1
    max_polling_interval 2
    no_path_retry 90
}
CONF
    # docs/clients.md tells users to put this section there.
    cat /lab/devices.conf >>/etc/multipath.conf
    cat >/etc/iscsi/iscsid.conf <<CONF
iscsid.startup = /bin/true
node.startup = manual
node.session.timeo.replacement_timeout = 1
node.conn[0].timeo.login_timeout = 15
node.conn[0].timeo.logout_timeout = 15
node.conn[0].timeo.noop_out_interval = ${PING_INTERVAL:-0}
node.conn[0].timeo.noop_out_timeout = 2
node.session.err_timeo.abort_timeout = 15
node.session.initial_login_retry_max = 8
node.session.cmds_max = 128
node.session.queue_depth = 32
node.session.iscsi.InitialR2T = No
node.session.iscsi.ImmediateData = Yes
node.session.iscsi.FirstBurstLength = 262144
node.session.iscsi.MaxBurstLength = 16776192
node.conn[0].iscsi.MaxRecvDataSegmentLength = 262144
node.conn[0].iscsi.HeaderDigest = ${1:-None}
node.conn[0].iscsi.DataDigest = ${2:-None}
CONF
    iscsid
    multipathd >/dev/null 2>&1
    until_true 50 multipathd show status >/dev/null 2>&1 || fail "multipathd does not answer"
}

# login: discovers and logs in over both portals. Sets M to the multipath device.
login() {
    local portal
    for portal in "${PORTALS[@]}"; do
        iscsiadm -m discovery -t sendtargets -p "$portal" | sort -u
        iscsiadm -m node -T "$TARGET" -p "$portal" --login
    done
    udevadm settle -t 20
    until_true 150 has_paths 2 || { multipath -ll; fail "no multipath device with two paths"; }
    M=/dev/mapper/$(multipathd show maps raw format %n | head -1 | tr -d ' ')
    until_true 50 test -b "$M" || fail "no device $M"
    note "two paths: $M"
}

has_paths() { [ "$(multipathd show paths raw format '%t %T' | grep -c 'active *ready')" = "$1" ]; }

logout() {
    multipath -F >/dev/null 2>&1 || true
    iscsiadm -m node -u >/dev/null
}

# drop_caches: drops all caches, so that the next reads come from the target.
drop_caches() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
    blockdev --flushbufs "$M"
}

# make_fs ext4|xfs FOLDER: makes a file system on the multipath device, and mounts it at FOLDER.
make_fs() {
    case $1 in
        ext4) mkfs.ext4 -q -F "$M" ;;
        xfs) modprobe xfs && mkfs.xfs -q -f "$M" ;;
    esac
    mkdir -p "$2"
    mount -t "$1" "$M" "$2"
}

# check_fs ext4|xfs: checks that the file system is whole. It must not be mounted.
check_fs() {
    case $1 in
        ext4) e2fsck -fn "$M" ;;
        xfs) xfs_repair -n "$M" >/dev/null 2>&1 || fail "xfs_repair finds damage" ;;
    esac
}

# make_source MIB: makes a random file, and sets SOURCE to its path and SUM to its checksum.
make_source() {
    SOURCE=/tmp/source
    dd if=/dev/urandom of=$SOURCE bs=1M count="$1" status=none
    SUM=$(sha256sum <$SOURCE)
}

# check_files FOLDER: checks that every file in FOLDER equals the source.
check_files() {
    local file count=0
    for file in "$1"/f*; do
        [ "$(sha256sum <"$file")" = "$SUM" ] || fail "$file differs from what was written"
        count=$((count + 1))
    done
    [ $count -gt 0 ] || fail "no files in $1"
    note "$count files match"
}

# rotated BYTES: prints the source, rotated by BYTES. So no block equals the previous one at its
# place.
rotated() {
    tail -c +$(($1 + 1)) $SOURCE
    head -c "$1" $SOURCE
}

# write_for SECONDS FOLDER: overwrites two files with fsync again and again, each time with other
# bytes; longer if there were fewer than three writes, because a guest may get little of a busy
# machine. Sets WRITES, WORST_MS, and LAST: the rotation with which each file was last overwritten.
write_for() {
    local end=$(($(now_s) + $1)) limit=$(($(now_s) + $1 + 120)) size number start took
    size=$(stat -c %s $SOURCE)
    WRITES=0 WORST_MS=0 LAST=()
    while [ "$(now_s)" -lt $end ] || [ $WRITES -lt 3 -a "$(now_s)" -lt $limit ]; do
        start=$(date +%s%N)
        number=$((WRITES % 2))
        LAST[number]=$((WRITES * 4096 % size))
        rotated ${LAST[number]} | dd of="$2/f$number" bs=64k iflag=fullblock conv=fsync status=none
        took=$((($(date +%s%N) - start) / 1000000))
        [ $took -gt $WORST_MS ] && WORST_MS=$took
        WRITES=$((WRITES + 1))
    done
    note "$WRITES writes, the longest took $WORST_MS ms"
}

# check_written ext4|xfs FOLDER: reads the file system at FOLDER anew from the unit. It must be
# whole, and every file must hold the bytes that write_for wrote last. It is unmounted afterwards.
check_written() {
    local number
    umount "$2"
    drop_caches
    check_fs "$1"
    mount -t "$1" -o ro "$M" "$2"
    for number in "${!LAST[@]}"; do
        [ "$(rotated ${LAST[number]} | sha256sum)" = "$(sha256sum <"$2/f$number")" ] ||
            fail "f$number is not what was written last"
    done
    umount "$2"
    [ ${#LAST[@]} -gt 0 ] || fail "nothing was written"
    note "${#LAST[@]} files are what was written last"
}
