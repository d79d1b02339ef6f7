# The daemon is killed (-9) and started again while writing; what fsync promised is there.
. /lab/library.sh
start_daemons
login
mkfs.ext4 -q -F "$M"
mkdir -p /mnt/a
mount "$M" /mnt/a
make_source 8
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
umount /mnt/a
drop_caches
e2fsck -fn "$M"
mount -o ro "$M" /mnt/a
check_files /mnt/a
umount /mnt/a
logout
echo "figures: killed twice, $WRITES writes of 8 MiB with fsync, longest stall $WORST_MS ms, all match"
