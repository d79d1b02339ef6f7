# Second part of a guest's start, once udev runs: it sets up the network and the line to the host,
# runs the lab's script, and tells its status.
for word in $(cat /proc/cmdline); do
    case $word in lab.paths=*) paths=${word#*=} ;; esac
done

# Descriptor 3 is the line to the host. It stays open, because a port can be opened once only.
for _ in $(seq 100); do
    port=$(echo /dev/vport*)
    [ -c "$port" ] && break
    sleep 0.1
done
exec 3<>"$port" || { echo "no line to the host"; exit 1; }

ip link set lo up
for ((path = 0; path < paths; path++)); do
    for _ in $(seq 50); do
        [ -e /sys/class/net/eth$path ] && break
        sleep 0.1
    done
    ip link set eth$path up
    ip addr add 10.77.$path.2/24 dev eth$path
done
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
