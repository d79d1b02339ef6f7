#!/bin/bash
# PID 1 of a guest: it sets up the least that open-iscsi, udev and multipath need, then runs the
# lab's script.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir -p /run/lock /run/udev /dev/shm /dev/pts
mount -t devpts devpts /dev/pts
for word in $(cat /proc/cmdline); do
    case $word in lab.paths=*) paths=${word#*=} ;; esac
done
modprobe -a virtio_net virtio_console virtio_rng

# Descriptor 3 is the line to the host. It stays open, because a port can be opened once only.
for _ in $(seq 100); do
    port=$(echo /dev/vport*)
    [ -c "$port" ] && break
    sleep 0.1
done
exec 3<>"$port" || { echo "no line to the host"; busybox poweroff -f; }

ip link set lo up
for ((path = 0; path < paths; path++)); do
    for _ in $(seq 50); do
        [ -e /sys/class/net/eth$path ] && break
        sleep 0.1
    done
    ip link set eth$path up
    ip addr add 10.77.$path.2/24 dev eth$path
done
/usr/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add --subsystem-match=block --subsystem-match=scsi
udevadm settle -t 30
echo "up after $(cut -d' ' -f1 /proc/uptime) s, Linux $(uname -r)"

mapfile -t arguments </lab/arguments
cd /root
bash /lab/script.sh "${arguments[@]}" </dev/null
status=$?
echo "the script ended with $status after $(cut -d' ' -f1 /proc/uptime) s"
sync
echo "exit $status" >&3
# The host ends the machine once it has the status.
sleep 60
busybox poweroff -f
