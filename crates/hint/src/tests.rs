//! The whole text of every hint: each place with each errno that can arise anywhere.

use super::*;

/// Every errno for which some place has a hint, and one for which no place has a hint.
const ALL: [Errno; 25] = [
    Errno::NOENT,
    Errno::ACCESS,
    Errno::PERM,
    Errno::ROFS,
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::BUSY,
    Errno::AGAIN,
    Errno::IO,
    Errno::NODATA,
    Errno::NXIO,
    Errno::NODEV,
    Errno::NOMEDIUM,
    Errno::BADE,
    Errno::EXIST,
    Errno::ISDIR,
    Errno::NOTDIR,
    Errno::FBIG,
    Errno::ADDRINUSE,
    Errno::ADDRNOTAVAIL,
    Errno::AFNOSUPPORT,
    Errno::INVAL,
    Errno::MFILE,
    Errno::OPNOTSUPP,
    Errno::PROTO,
];

/// Hints of one place, and the text for every other errno.
struct Table {
    place: Place<'static>,
    hints: &'static [(&'static [Errno], &'static str)],
    otherwise: &'static str,
}

impl Table {
    fn check(&self) {
        for errno in ALL {
            let told = self.place.next(&errno.into());
            let listed = self.hints.iter().find(|(of, _)| of.contains(&errno));
            let expected = match listed {
                _ if errno == Errno::MFILE => LIMIT,
                Some((_, text)) => text,
                None => self.otherwise,
            };
            assert_eq!(told, expected, "{:?}, {errno:?}", self.place);
            assert!(!told.ends_with('.'), "a clause without a full stop: {told}");
        }
    }
}

fn path(path: &'static str) -> &'static Path {
    Path::new(path)
}

const DENIED: &[Errno] = &[Errno::ACCESS, Errno::PERM];
const FULL: &[Errno] = &[Errno::NOSPC, Errno::DQUOT];
const MEDIUM: &[Errno] = &[Errno::IO, Errno::NODATA];
const GONE: &[Errno] = &[Errno::NXIO, Errno::NODEV, Errno::NOMEDIUM];
const FAILS: &[Errno] = &[
    Errno::IO,
    Errno::NODATA,
    Errno::NXIO,
    Errno::NODEV,
    Errno::NOMEDIUM,
];
const WRONG: &[Errno] = &[Errno::ISDIR, Errno::NOTDIR];
const IN_USE: &[Errno] = &[Errno::BUSY, Errno::AGAIN];

#[test]
fn of_a_device() {
    Table {
        place: Place::Device(path("/dev/sdb")),
        hints: &[
            (&[Errno::NOENT], "attach the device, or correct the path: `lsblk -p` lists the devices"),
            (GONE, "attach the device again: `lsblk -p` lists the devices"),
            (
                DENIED,
                "run the daemon as root, or give its user access to the device: `ls -lL /dev/sdb` shows its owner",
            ),
            (&[Errno::ROFS], "make it writable: `blockdev --setrw /dev/sdb`"),
            (FULL, "the thin pool beneath /dev/sdb has no space left: extend the pool, then try again"),
            (
                IN_USE,
                "find its user with `lsblk /dev/sdb` and `fuser -v /dev/sdb`, and end that use; or choose \
                 another device",
            ),
            (
                MEDIUM,
                "the device or its cables fail: see `dmesg` and `smartctl -a /dev/sdb`, or choose another device",
            ),
            (
                &[Errno::BADE],
                "end the reservation at the host that has it: `sg_persist -r /dev/sdb` shows its holder",
            ),
            (WRONG, "name a device below /dev: `lsblk -p` lists the devices"),
        ],
        otherwise: "see what the kernel says of /dev/sdb with `dmesg`, or choose another device",
    }
    .check();
    let on_a_loop = Place::Device(path("/dev/loop5")).next(&Errno::IO.into());
    assert_eq!(
        on_a_loop,
        "the file beneath /dev/loop5 fails, or is too short: see `losetup -l /dev/loop5` and `dmesg`, or choose another device"
    );
}

#[test]
fn of_another_machines_disk() {
    const AWAY: &str = "see its paths with `sandstone initiator path list -d naa.6`; it is used again when a \
                        path is back";
    const FORBIDDEN: &str =
        "let this machine write to naa.6 in the settings of its array, then try again";
    Table {
        place: Place::RemoteDisk(path("naa.6")),
        hints: &[
            (&[Errno::NOENT], AWAY),
            (GONE, AWAY),
            (FULL, "the array that has naa.6 is out of space: free some space there, then try again"),
            (&[Errno::ROFS], FORBIDDEN),
            (DENIED, FORBIDDEN),
            (&[Errno::BADE], "end the reservation of naa.6 at the host that has it, then try again"),
        ],
        otherwise: "see what the array that has naa.6 reports, or choose another disk: `sandstone initiator device list`",
    }
    .check();
}

#[test]
fn of_a_file_that_holds_data() {
    Table {
        place: Place::DataFile(path("/srv/a.img")),
        hints: &[
            (
                &[Errno::NOENT],
                "create it, restore it from a copy, or mount the file system that it lies on",
            ),
            (
                DENIED,
                "let the daemon's user read and write it: `ls -l /srv/a.img` shows its owner",
            ),
            (
                &[Errno::ROFS],
                "its file system is read-only: see `dmesg` for the reason, and `findmnt -T /srv/a.img` for what to mount \
                 again with -o remount,rw",
            ),
            (
                FULL,
                "free some space on its file system: `df -h /srv/a.img` shows the free space",
            ),
            (
                IN_USE,
                "stop the other daemon, or choose another file: two writers would destroy the data",
            ),
            (
                MEDIUM,
                "the disk beneath the file fails: see `dmesg`, and find the disk with `findmnt -T \
                 /srv/a.img`; or choose another file",
            ),
            (
                GONE,
                "the disk beneath the file is gone: attach it again; `findmnt -T /srv/a.img` shows the disk",
            ),
            (WRONG, "name a file, or use a device backend for a block device"),
            (&[Errno::OPNOTSUPP], "use a file system that supports locks"),
        ],
        otherwise: "check /srv/a.img and its file system (see `dmesg`), or choose another file",
    }
    .check();
}

#[test]
fn of_a_file_that_is_made() {
    Table {
        place: Place::NewFile(path("/srv/a.img")),
        hints: &[
            (&[Errno::NOENT], "make the folder first: `mkdir -p /srv`"),
            (DENIED, "let the daemon's user write to /srv: `ls -ld /srv` shows its owner"),
            (
                &[Errno::ROFS],
                "the file system of /srv is read-only: mount it writable, or choose another folder",
            ),
            (
                FULL,
                "free some space in /srv (`df -h /srv` shows the free space), choose a smaller size, or do \
                 not preallocate",
            ),
            (&[Errno::FBIG], "the file system does not support files of that size: choose a smaller size"),
            (
                &[Errno::OPNOTSUPP],
                "do not preallocate, or choose a folder on a file system that supports it",
            ),
            (&[Errno::EXIST], "choose another path, or use the file as it is"),
            (WRONG, "/srv is not a folder: choose another path"),
        ],
        otherwise: "check the file system of /srv (see `dmesg`), or choose another folder",
    }
    .check();
}

#[test]
fn of_the_state_folder() {
    const OTHER: &str = "name a folder with --state: something else has that name";
    Table {
        place: Place::StateFolder,
        hints: &[
            (
                FULL,
                "free some space on the file system of the state folder (df shows the free space), then try again",
            ),
            (
                &[Errno::ROFS],
                "the file system of the state folder is read-only: see the kernel's log for the reason \
                 (dmesg), mount it writable again, then try again",
            ),
            (DENIED, "check the owner and the permissions of the state folder, then try again"),
            (
                &[Errno::NOENT],
                "mount the file system of the state folder, or name another folder with --state",
            ),
            (WRONG, OTHER),
            (&[Errno::EXIST], OTHER),
        ],
        otherwise: "check the disk under the state folder (see dmesg), then try again",
    }
    .check();
}

#[test]
fn of_a_file_that_a_command_names() {
    Table {
        place: Place::File(path("a.json")),
        hints: &[
            (
                &[Errno::NOENT],
                "check the path: `ls .` shows the files there",
            ),
            (
                DENIED,
                "run this as a user who may use it: `ls -ld . a.json` shows the owners",
            ),
            (
                &[Errno::ROFS],
                "the file system of . is read-only: name a file elsewhere",
            ),
            (
                FULL,
                "free some space in . (`df -h .` shows the free space), then try again",
            ),
            (
                &[Errno::EXIST],
                "name another file, or remove the existing one first",
            ),
            (WRONG, "`ls -ld a.json` shows its kind: name another file"),
            (
                &[Errno::FBIG],
                "the file system of . does not support files of that size: name a file elsewhere",
            ),
            (
                FAILS,
                "the disk beneath a.json fails: see `dmesg`, or name a file elsewhere",
            ),
        ],
        otherwise: "check a.json and its file system (see `dmesg`), then try again",
    }
    .check();
}

#[test]
fn of_what_is_printed() {
    Table {
        place: Place::Output,
        hints: &[
            (
                FULL,
                "free some space where the output goes (df shows the free space), or send it elsewhere",
            ),
            (FAILS, "the disk that the output goes to fails (see dmesg): send it elsewhere"),
        ],
        otherwise: "send the output elsewhere, or make its destination writable",
    }
    .check();
}

#[test]
fn of_an_address() {
    let address = |text: &str| Place::Address(text.parse().expect("an address"));
    Table {
        place: address("192.0.2.7:3260"),
        hints: &[
            (
                &[Errno::ADDRINUSE],
                "find the process that listens there with `ss -ltnp 'sport = :3260'`, and end it, or choose \
                 another port",
            ),
            (
                &[Errno::ADDRNOTAVAIL],
                "this machine has no address 192.0.2.7: `ip -br addr` lists its addresses",
            ),
            (
                DENIED,
                "a rule of this machine forbids it (SELinux, AppArmor): see `journalctl -k -g denied`, or choose another port \
                 than 3260",
            ),
            (&[Errno::AFNOSUPPORT], "this machine does not speak IPv6: choose an IPv4 address"),
        ],
        otherwise: "choose another address: `ip -br addr` lists the addresses of this machine",
    }
    .check();
    assert_eq!(
        address("0.0.0.0:80").next(&Errno::ACCESS.into()),
        "ports below 1024 are for root: choose a port from 1024 on (that of iSCSI is 3260), or let the \
         program have port 80 with AmbientCapabilities=CAP_NET_BIND_SERVICE in its unit file"
    );
    assert_eq!(
        address("[fe80::1]:3260").next(&Errno::INVAL.into()),
        "a link-local address needs the number of its interface, as in [fe80::1%2]:3260: `ip -6 -br addr` \
         shows the addresses"
    );
}

#[test]
fn of_the_file_of_a_socket() {
    Table {
        place: Place::SocketFile(path("/run/s/control.sock")),
        hints: &[
            (&[Errno::ADDRINUSE], "stop the process that serves there, or choose another path"),
            (&[Errno::EXIST], "choose a path that does not exist yet"),
            (&[Errno::NOENT], "make the folder first: `mkdir -p /run/s`"),
            (
                DENIED,
                "choose a folder that you may write to: `ls -ld /run/s` shows its owner",
            ),
            (&[Errno::ROFS], "the file system of /run/s is read-only: choose another folder"),
            (
                FULL,
                "free some space in /run/s (`df -h /run/s` shows the free space), or choose another folder",
            ),
            (&[Errno::INVAL], "choose a shorter path: the kernel allows 107 bytes"),
            (WRONG, "/run/s is not a folder: choose another path"),
        ],
        otherwise: "choose another path than /run/s/control.sock",
    }
    .check();
}

#[test]
fn of_the_process() {
    Table {
        place: Place::Process,
        hints: &[(&[Errno::AGAIN], LIMIT)],
        otherwise: "see `dmesg` and the limits of this process (`ulimit -a`), then try again",
    }
    .check();
}
