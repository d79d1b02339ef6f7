# Over two paths, on ext4 and xfs: writes with fsync, unmounts, drops all caches, checks, compares.
. /lab/library.sh
start_daemons
login
iscsiadm -m session
multipath -ll
make_source 16
for type in ext4 xfs; do
    make_fs $type /mnt/$type
    for n in 1 2 3 4; do dd if=$SOURCE of=/mnt/$type/f$n bs=64k conv=fsync status=none; done
    umount /mnt/$type
    drop_caches
    check_fs $type
    mount -t $type "$M" /mnt/$type
    check_files /mnt/$type
    umount /mnt/$type
done
logout
echo "figures: ext4 and xfs, 64 MiB each, checksums match after remount"
