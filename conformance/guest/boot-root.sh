#!/bin/busybox sh
# Root program of the diskless guest: it writes to its own root disk, and reads back past the cache.
B=/bin/busybox
echo "lab: root is $($B sed -n 's/^\(.dev.sd[^ ]*\) \/ .*/\1/p' /proc/mounts), $($B cat /sys/block/sda/device/model)"
$B dd if=/dev/urandom of=/data bs=64k count=64 2>/dev/null
$B sha256sum /data >/data.sum
$B sha256sum /token | $B cut -d' ' -f1 >/proof
$B sync
echo 3 >/proc/sys/vm/drop_caches
$B sha256sum -c /data.sum && echo "lab: the root disk reads back what was written after $($B cut -d' ' -f1 /proc/uptime) s"
$B mount -o remount,ro /
$B sync
$B poweroff -f
