#!/bin/bash
# PID 1 of a guest: it sets up the least that open-iscsi, udev and multipath need, then runs the
# lab's script.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir -p /run/lock /run/udev /dev/shm /dev/pts
mount -t devpts devpts /dev/pts
modprobe -a virtio_net virtio_console virtio_rng
/usr/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add --subsystem-match=block --subsystem-match=scsi
udevadm settle -t 30
bash /lab/run.sh
busybox poweroff -f
