# One of two paths is cut while writing; the writes go on, and everything is there afterwards.
. /lab/library.sh
start_daemons
login
mkfs.ext4 -q -F "$M"
mkdir -p /mnt/a
mount "$M" /mnt/a
make_source 8
(sleep 2; host link 0 down) &
write_for 16 /mnt/a
wait
has_paths 1 || { multipath -ll; fail "the cut was not noticed"; }
[ $WRITES -ge 3 ] || fail "only $WRITES writes"
host link 0 up
until_true 200 has_paths 2 || { multipath -ll; fail "the path did not come back"; }
note "the path is back"
umount /mnt/a
drop_caches
e2fsck -fn "$M"
mount -o ro "$M" /mnt/a
check_files /mnt/a
umount /mnt/a
logout
echo "figures: $WRITES writes of 8 MiB with fsync, longest stall $WORST_MS ms, all match"
