# Before the files of the package go. $1 is 0 at a removal; an upgrade stops nothing.
if [ "$1" -eq 0 ] && [ -d /run/systemd/system ]; then
    systemctl --no-reload disable --now sandstone.service || :
fi
