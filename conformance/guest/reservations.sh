# Checks persistent reservations with APTPL, which must outlive kill -9 of the daemon.
. /lab/library.sh
start_daemons
login
KEY=0xabc123
disks=($(multipathd show paths raw format %d))
[ ${#disks[@]} = 2 ] || fail "expected two paths, got ${disks[*]}"
A=/dev/${disks[0]} B=/dev/${disks[1]}
# A unit attention (of a restart, or of a change by the other path) answers the next command.
persist() { sg_persist "$@" || sg_persist "$@"; }
persist -i -c "$A" >/tmp/capabilities
cat /tmp/capabilities
grep -q 'Persist Through Power Loss Capable(PTPL_C): 1' /tmp/capabilities || fail "no PTPL capability"
for path in "$A" "$B"; do
    persist --out --register --param-sark=$KEY --param-aptpl "$path"
done
persist --out --reserve --param-rk=$KEY --prout-type=5 "$A"
persist -i -k "$A" >/tmp/keys.before
persist -i -r "$A" >/tmp/reservation.before
grep -c "$KEY" /tmp/keys.before | grep -qx 2 || { cat /tmp/keys.before; fail "not two registrations"; }
grep -q "Write Exclusive, registrants only" /tmp/reservation.before || fail "no reservation of type 5"

host server kill
sleep 1
host server start
until_true 150 has_paths 2 || { multipath -ll; fail "the paths did not come back"; }
persist -i -k "$A" >/tmp/keys.after
persist -i -r "$A" >/tmp/reservation.after
cat /tmp/keys.after /tmp/reservation.after
grep -c "$KEY" /tmp/keys.after | grep -qx 2 || fail "registrations lost"
grep -q "Write Exclusive, registrants only" /tmp/reservation.after || fail "the reservation is lost"

# The reservation is in force: without its key the holder's other path is a stranger.
persist --out --register --param-rk=$KEY --param-sark=0 "$B"
if sg_dd if=/dev/zero of="$B" bs=512 count=8 oflag=direct 2>/dev/null; then fail "a stranger wrote"; fi
sg_dd if=/dev/zero of="$A" bs=512 count=8 oflag=direct || fail "the holder cannot write"
persist --out --release --param-rk=$KEY --prout-type=5 "$A"
persist --out --clear --param-rk=$KEY "$A"
persist -i -k "$A" | grep -q "no registered\|NO registered\|there are NO" || fail "keys left after CLEAR"
logout
echo "figures: 2 registrations and 1 reservation survived kill -9, obeyed and cleared"
