# After the files of the package are in place. $1 is 1 at a first installation, and 2 at an upgrade.
getent group sandstone >/dev/null || groupadd --system sandstone
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
fi
if [ "$1" -eq 1 ]; then
    systemctl --no-reload preset sandstone.service >/dev/null 2>&1 || :
fi
