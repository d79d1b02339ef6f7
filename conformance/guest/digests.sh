# Checks CRC32C over headers and data, in both directions.
. /lab/library.sh
start_daemons CRC32C CRC32C
login
iscsiadm -m session -P 2 | grep -E 'HeaderDigest|DataDigest' | tee /tmp/digests
[ "$(grep -c CRC32C /tmp/digests)" = 4 ] || fail "digests were not negotiated on both paths"
mkfs.ext4 -q -F "$M"
mkdir -p /mnt/a
mount "$M" /mnt/a
make_source 16
for n in 1 2 3; do dd if=$SOURCE of=/mnt/a/f$n bs=64k conv=fsync status=none; done
umount /mnt/a
drop_caches
mount -o ro "$M" /mnt/a
check_files /mnt/a
umount /mnt/a
dmesg | grep -iE 'digest|iscsi.*(error|detected conn)' && fail "the kernel complains" || true
logout
echo "figures: CRC32C on headers and data, 48 MiB match"
