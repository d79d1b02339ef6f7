#!/bin/busybox sh
# First program of the diskless guest: it logs in to the target of the firmware's table (iBFT), and
# changes to the root on the unit.
B=/bin/busybox
$B mount -t proc proc /proc
$B mount -t sysfs sysfs /sys
$B mount -t devtmpfs devtmpfs /dev
echo "lab: Linux is up"
for module in /modules/*.ko; do
    $B insmod "$module" || echo "lab: cannot load $module"
done
ibft=/sys/firmware/ibft
for name in target0/target-name target0/ip-addr target0/port initiator/initiator-name ethernet0/ip-addr; do
    echo "lab: iBFT $name = $($B cat $ibft/$name)"
done
$B ip link set lo up
$B ip link set eth0 up
$B ip addr add "$($B cat $ibft/ethernet0/ip-addr)/24" dev eth0
/usr/sbin/iscsistart -b
tries=0
while ! [ -b /dev/sda1 ] && [ $tries -lt 150 ]; do
    $B sleep 0.1
    tries=$((tries + 1))
done
$B mount -t ext4 /dev/sda1 /target || { echo "lab: FAILED, no root on the unit"; $B poweroff -f; }
for folder in proc sys dev; do $B mount -o move /$folder /target/$folder; done
exec $B switch_root /target /init
