# Checks target port groups, identification and supported commands as Linux sees them.
. /lab/library.sh
start_daemons
login
disks=($(multipathd show paths raw format %d))
A=/dev/${disks[0]}
multipath -ll | tee /tmp/multipath
grep -q "hwhandler='1 alua'" /tmp/multipath || fail "no ALUA handler"
multipathd show config local | grep -q SNDSTONE || fail "multipathd does not know the documented rule"
[ "$(grep -c 'prio=50' /tmp/multipath)" = 1 ] || fail "no single group with priority 50"
[ "$(grep -c 'prio=10' /tmp/multipath)" = 1 ] || fail "no single group with priority 10"
sg_rtpg -d "$A" | tee /tmp/groups
grep -q 'active/optimized' /tmp/groups || fail "no group is active/optimized"
grep -q 'active/non optimized' /tmp/groups || fail "no group is active/non optimized"
sg_inq "$A" | tee /tmp/inquiry
grep -q 'TPGS=[123]' /tmp/inquiry || fail "INQUIRY says no TPGS"
for page in sv sn di bl bdc lbpv ei; do
    sg_vpd --page=$page "$A" >/tmp/page || fail "VPD page $page"
    [ -s /tmp/page ] || fail "VPD page $page is empty"
done
sg_vpd --page=di "$A" | tee /tmp/designators
grep -A1 'type: NAA' /tmp/designators | grep -q 0x6 || fail "no NAA 6 designator"
grep -q 'Target port group' /tmp/designators || fail "no target port group designator"
grep -q 'Relative target port' /tmp/designators || fail "no relative target port designator"
# The unit has one name over both paths, and two ports.
first=$(sg_vpd --page=di "/dev/${disks[0]}" | grep -m1 '0x6')
second=$(sg_vpd --page=di "/dev/${disks[1]}" | grep -m1 '0x6')
[ "$first" = "$second" ] || fail "the paths name different units: $first, $second"
sg_opcodes "$A" >/tmp/opcodes || fail "sg_opcodes"
for name in 'Compare and write' 'Unmap' 'Write same(16)' 'Persistent reserve out' 'Report target port groups'; do
    grep -qi "$(printf %s "$name" | sed 's/[()]/./g')" /tmp/opcodes || fail "sg_opcodes does not list $name"
done
sg_readcap --long "$A"
sg_luns "$A"
sg_modes --all "$A" >/tmp/modes || fail "sg_modes"
sg_logs --all "$A" >/tmp/logs || fail "sg_logs"
sg_turs "$A"
logout
echo "figures: ALUA priorities 50 and 10, $(wc -l </tmp/opcodes) lines of sg_opcodes, 7 VPD pages"
