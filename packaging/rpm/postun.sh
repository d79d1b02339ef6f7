# After the files of the old package are gone. $1 is 0 at a removal, and 1 at an upgrade. A removal
# keeps /var/lib/sandstone, and an upgrade restarts a service that runs.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
    if [ "$1" -ge 1 ] && systemctl --quiet is-active sandstone.service; then
        if why=$(/usr/bin/sandstone serve --check 2>&1); then
            systemctl try-restart sandstone.service || :
        else
            echo "sandstone: the new version cannot start with the present settings:" >&2
            echo "$why" >&2
            echo "sandstone: the old version goes on serving until you correct them and type:" >&2
            echo "sandstone:     systemctl restart sandstone" >&2
        fi
    fi
fi
if [ "$1" -eq 0 ] && [ -d /var/lib/sandstone ]; then
    echo "sandstone: /var/lib/sandstone stays: it has the configuration and units that are files." >&2
fi
