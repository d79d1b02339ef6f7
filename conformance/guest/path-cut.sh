# Cuts one of two paths, one after the other, during writes to ext4 and to xfs. The writes go on,
# and all data is there afterwards.
. /lab/library.sh
PING_INTERVAL=1
start_daemons
login
make_source 8
figures= path=0
for type in ext4 xfs; do
    make_fs $type /mnt/a
    (sleep 2; host link $path down) &
    write_for 16 /mnt/a
    wait
    has_paths 1 || { multipath -ll; fail "the cut was not noticed"; }
    [ $WRITES -ge 3 ] || fail "only $WRITES writes"
    host link $path up
    until_true 200 has_paths 2 || { multipath -ll; fail "the path did not come back"; }
    note "the path is back"
    check_written $type /mnt/a
    figures="$figures$type: $WRITES writes, longest stall $WORST_MS ms; "
    path=$((path + 1))
done
logout
echo "figures: 8 MiB with fsync; ${figures}all match"
