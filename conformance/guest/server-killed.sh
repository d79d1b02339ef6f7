# Kills the daemon (-9) and starts it again during writes to ext4, and to xfs. All data for which
# fsync returned is there.
. /lab/library.sh
start_daemons
login
make_source 8
figures=
for type in ext4 xfs; do
    make_fs $type /mnt/a
    (
        for _ in 1 2; do
            sleep 4
            host server kill
            sleep 2
            host server start
        done
    ) &
    write_for 18 /mnt/a
    wait || fail "the host could not kill and start the daemon"
    [ $WRITES -ge 3 ] || fail "only $WRITES writes"
    until_true 300 has_paths 2 || { multipath -ll; fail "the paths did not come back"; }
    note "both paths are back"
    check_written $type /mnt/a
    figures="$figures$type: $WRITES writes, longest stall $WORST_MS ms; "
done
logout
echo "figures: killed four times, 8 MiB with fsync; ${figures}all match"
