# Checks that fstrim becomes UNMAP, and that the host gets the space back.
. /lab/library.sh
start_daemons
login
disk=$(multipathd show paths raw format %d | head -1 | tr -d ' ')
lsblk --discard "/dev/$disk"
[ "$(cat "/sys/block/$disk/queue/discard_max_bytes")" -gt 0 ] || fail "the disk offers no discard"
mkfs.ext4 -q -F -E nodiscard "$M"
mkdir -p /mnt/a
mount "$M" /mnt/a
make_source 32
for n in 1 2 3 4; do dd if=$SOURCE of=/mnt/a/f$n bs=1M conv=fsync status=none; done
full=$(host allocated)
rm /mnt/a/f2 /mnt/a/f3 /mnt/a/f4
sync
fstrim -v /mnt/a
sync
trimmed=$(host allocated)
note "allocated on the host: $full bytes, after fstrim $trimmed bytes"
freed=$(((full - trimmed) >> 20))
[ $freed -ge 80 ] || fail "only $freed MiB of 96 MiB came back"
umount /mnt/a
drop_caches
e2fsck -fn "$M"
mount "$M" /mnt/a
check_files /mnt/a
umount /mnt/a
logout
echo "figures: 96 MiB removed, $freed MiB given back to the host, the file that stayed matches"
