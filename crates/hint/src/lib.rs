//! Steps to try where the kernel refuses something. One errno asks for different steps at different
//! places: EACCES at port 80 has nothing to do with the owner of the state folder. Place and cause
//! together therefore choose every hint.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use rustix::io::Errno;

pub mod client_instructions;
mod holder;
mod own_address;

pub use holder::Holder;

/// Place of a refusal.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// A device node of this machine.
    Device(&'a Path),
    /// A disk of another machine, by name.
    RemoteDisk(&'a Path),
    /// A file that holds the data of a logical unit or a pool.
    DataFile(&'a Path),
    /// A data file that is being created or extended.
    NewFile(&'a Path),
    /// The daemon's state folder.
    StateFolder,
    /// A file or folder that a command names.
    File(&'a Path),
    /// The output of a command.
    Output,
    /// An address to listen on.
    Address(SocketAddr),
    /// The socket file to listen on.
    SocketFile(&'a Path),
    /// Resources of a process: threads, descriptors, signals.
    Process,
}

/// Cause of a refusal, as far as the next step depends on the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The file or device does not exist.
    Missing,
    /// The user lacks permission.
    Denied,
    /// The medium or file system takes no writes.
    ReadOnly,
    /// The space or the quota is used up.
    Full,
    /// The device is mounted, or another device lies on it.
    Busy,
    /// A different process has the lock.
    Locked,
    /// The medium fails.
    Medium,
    /// The device is gone.
    Gone,
    /// The device became shorter.
    Shrunk,
    /// A different host has reserved the device.
    Reserved,
    /// The device will come back on its own.
    Away,
    /// The file exists already.
    Exists,
    /// A folder was found where a file is wanted, or a file where a folder is wanted.
    WrongKind,
    /// The file system takes no file of the requested size.
    TooLarge,
    /// A different process listens on the address.
    Taken,
    /// The address does not belong to this machine.
    Foreign,
    /// The kernel of this machine does not support the protocol.
    NoFamily,
    /// The kernel does not accept the form of the name or address.
    Malformed,
    /// The process has reached its limit of threads, descriptors or bytes.
    Limit,
    /// The device or file system lacks the function.
    Unsupported,
    /// Any other cause.
    Other,
}

impl Cause {
    /// Derives the cause from an error of the kernel.
    pub fn of(error: &io::Error) -> Self {
        if let Some(cause) = Errno::from_io_error(error).and_then(Self::of_errno) {
            return cause;
        }
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            io::ErrorKind::PermissionDenied => Self::Denied,
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            io::ErrorKind::ResourceBusy => Self::Busy,
            io::ErrorKind::WouldBlock => Self::Locked,
            io::ErrorKind::AlreadyExists => Self::Exists,
            io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => Self::WrongKind,
            io::ErrorKind::FileTooLarge => Self::TooLarge,
            io::ErrorKind::AddrInUse => Self::Taken,
            io::ErrorKind::AddrNotAvailable => Self::Foreign,
            io::ErrorKind::InvalidInput => Self::Malformed,
            io::ErrorKind::Unsupported => Self::Unsupported,
            _ => Self::Other,
        }
    }

    /// Derives the causes for which the standard library has no stable kind.
    fn of_errno(errno: Errno) -> Option<Self> {
        Some(match errno {
            // The kernel reports a bad sector as ENODATA, and a failed protection check as EILSEQ.
            Errno::IO | Errno::REMOTEIO | Errno::NODATA | Errno::ILSEQ => Self::Medium,
            Errno::NXIO | Errno::NODEV | Errno::NOMEDIUM => Self::Gone,
            Errno::BADE => Self::Reserved,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Self::Limit,
            Errno::AFNOSUPPORT => Self::NoFamily,
            _ => return None,
        })
    }
}

impl Place<'_> {
    /// Returns the step to try after this error, as a clause without a full stop.
    pub fn next(self, error: &io::Error) -> String {
        self.after(Cause::of(error))
    }

    /// Returns the step to try after a refusal with this cause.
    pub fn after(self, cause: Cause) -> String {
        if cause == Cause::Limit {
            return LIMIT.to_owned();
        }
        match self {
            Self::Device(path) => of_device(path, cause),
            Self::RemoteDisk(name) => of_remote_disk(name, cause),
            Self::DataFile(path) => of_data_file(path, cause),
            Self::NewFile(path) => of_new_file(path, cause),
            Self::StateFolder => of_state_folder(cause).to_owned(),
            Self::File(path) => of_file(path, cause),
            Self::Output => of_output(cause).to_owned(),
            Self::Address(address) => of_address(address, cause),
            Self::SocketFile(path) => of_socket_file(path, cause),
            // One thread too many makes the kernel return EAGAIN.
            Self::Process if cause == Cause::Locked => LIMIT.to_owned(),
            Self::Process => {
                "see `dmesg` and the limits of this process (`ulimit -a`), then try again"
                    .to_owned()
            }
        }
    }
}

const LIMIT: &str = "raise the limits on threads, descriptors and memory (`ulimit -u`, `ulimit -n`, `ulimit -v`; TasksMax= and \
                     LimitNOFILE= in a unit file), then try again";

fn of_device(path: &Path, cause: Cause) -> String {
    let name = path.display();
    let is_loop = path.to_string_lossy().starts_with("/dev/loop");
    match cause {
        Cause::Missing => {
            "attach the device, or correct the path: `lsblk -p` lists the devices".to_owned()
        }
        Cause::Gone => "attach the device again: `lsblk -p` lists the devices".to_owned(),
        Cause::Denied => format!(
            "run the daemon as root, or give its user access to the device: `ls -lL {name}` shows its owner"
        ),
        Cause::ReadOnly => format!("make it writable: `blockdev --setrw {name}`"),
        Cause::Full => {
            format!(
                "the thin pool beneath {name} has no space left: extend the pool, then try again"
            )
        }
        Cause::Busy | Cause::Locked => format!(
            "find its user with `lsblk {name}` and `fuser -v {name}`, and end that use; or choose another device"
        ),
        Cause::Medium if is_loop => format!(
            "the file beneath {name} fails, or is too short: see `losetup -l {name}` and `dmesg`, or choose another device"
        ),
        Cause::Medium => format!(
            "the device or its cables fail: see `dmesg` and `smartctl -a {name}`, or choose another device"
        ),
        Cause::Shrunk => format!(
            "the device became smaller: `blockdev --getsize64 {name}` shows its size; restore the earlier \
             size, or choose another device"
        ),
        Cause::Reserved => format!(
            "end the reservation at the host that has it: `sg_persist -r {name}` shows its holder"
        ),
        Cause::WrongKind => "name a device below /dev: `lsblk -p` lists the devices".to_owned(),
        _ => format!("see what the kernel says of {name} with `dmesg`, or choose another device"),
    }
}

fn of_remote_disk(name: &Path, cause: Cause) -> String {
    let name = name.display();
    match cause {
        Cause::Away | Cause::Gone | Cause::Missing => format!(
            "see its paths with `sandstone initiator path list -d {name}`; it is used again when a path is back"
        ),
        Cause::Full => {
            format!(
                "the array that has {name} is out of space: free some space there, then try again"
            )
        }
        Cause::ReadOnly | Cause::Denied => {
            format!("let this machine write to {name} in the settings of its array, then try again")
        }
        Cause::Reserved => {
            format!("end the reservation of {name} at the host that has it, then try again")
        }
        Cause::Shrunk => {
            format!("the array made {name} smaller: restore its size there, then try again")
        }
        _ => format!(
            "see what the array that has {name} reports, or choose another disk: `sandstone initiator device list`"
        ),
    }
}

fn of_data_file(path: &Path, cause: Cause) -> String {
    let name = path.display();
    match cause {
        Cause::Missing => {
            "create it, restore it from a copy, or mount the file system that it lies on".to_owned()
        }
        Cause::Denied => {
            format!("let the daemon's user read and write it: `ls -l {name}` shows its owner")
        }
        Cause::ReadOnly => format!(
            "its file system is read-only: see `dmesg` for the reason, and `findmnt -T {name}` for what to mount again with -o \
             remount,rw"
        ),
        Cause::Full => {
            format!("free some space on its file system: `df -h {name}` shows the free space")
        }
        Cause::Locked | Cause::Busy => {
            "stop the other daemon, or choose another file: two writers would destroy the data"
                .to_owned()
        }
        Cause::Medium => format!(
            "the disk beneath the file fails: see `dmesg`, and find the disk with `findmnt -T {name}`; or \
             choose another file"
        ),
        Cause::Gone => format!(
            "the disk beneath the file is gone: attach it again; `findmnt -T {name}` shows the disk"
        ),
        Cause::Shrunk => format!(
            "the file was cut short: restore {name}, or restore its length with truncate if the lost data is \
             not needed"
        ),
        Cause::WrongKind => "name a file, or use a device backend for a block device".to_owned(),
        Cause::Unsupported => "use a file system that supports locks".to_owned(),
        _ => format!("check {name} and its file system (see `dmesg`), or choose another file"),
    }
}

fn of_new_file(path: &Path, cause: Cause) -> String {
    let folder = folder_of(path).display();
    match cause {
        Cause::Missing => format!("make the folder first: `mkdir -p {folder}`"),
        Cause::Denied => {
            format!("let the daemon's user write to {folder}: `ls -ld {folder}` shows its owner")
        }
        Cause::ReadOnly => format!(
            "the file system of {folder} is read-only: mount it writable, or choose another folder"
        ),
        Cause::Full => format!(
            "free some space in {folder} (`df -h {folder}` shows the free space), choose a smaller size, or do not \
             preallocate"
        ),
        Cause::TooLarge => {
            "the file system does not support files of that size: choose a smaller size".to_owned()
        }
        Cause::Unsupported => {
            "do not preallocate, or choose a folder on a file system that supports it".to_owned()
        }
        Cause::Exists => "choose another path, or use the file as it is".to_owned(),
        Cause::WrongKind => format!("{folder} is not a folder: choose another path"),
        _ => format!("check the file system of {folder} (see `dmesg`), or choose another folder"),
    }
}

fn of_state_folder(cause: Cause) -> &'static str {
    match cause {
        Cause::Full => {
            "free some space on the file system of the state folder (df shows the free space), then try again"
        }
        Cause::ReadOnly => {
            "the file system of the state folder is read-only: see the kernel's log for the reason (dmesg), \
             mount it writable again, then try again"
        }
        Cause::Denied => "check the owner and the permissions of the state folder, then try again",
        Cause::Missing => {
            "mount the file system of the state folder, or name another folder with --state"
        }
        Cause::WrongKind | Cause::Exists => {
            "name a folder with --state: something else has that name"
        }
        _ => "check the disk under the state folder (see dmesg), then try again",
    }
}

fn of_file(path: &Path, cause: Cause) -> String {
    let (name, folder) = (path.display(), folder_of(path).display());
    match cause {
        Cause::Missing => format!("check the path: `ls {folder}` shows the files there"),
        Cause::Denied => {
            format!("run this as a user who may use it: `ls -ld {folder} {name}` shows the owners")
        }
        Cause::ReadOnly => {
            format!("the file system of {folder} is read-only: name a file elsewhere")
        }
        Cause::Full => format!(
            "free some space in {folder} (`df -h {folder}` shows the free space), then try again"
        ),
        Cause::Exists => "name another file, or remove the existing one first".to_owned(),
        Cause::WrongKind => format!("`ls -ld {name}` shows its kind: name another file"),
        Cause::TooLarge => {
            format!(
                "the file system of {folder} does not support files of that size: name a file elsewhere"
            )
        }
        Cause::Gone | Cause::Medium => {
            format!("the disk beneath {name} fails: see `dmesg`, or name a file elsewhere")
        }
        _ => format!("check {name} and its file system (see `dmesg`), then try again"),
    }
}

fn of_output(cause: Cause) -> &'static str {
    match cause {
        Cause::Full => {
            "free some space where the output goes (df shows the free space), or send it elsewhere"
        }
        Cause::Medium | Cause::Gone => {
            "the disk that the output goes to fails (see dmesg): send it elsewhere"
        }
        _ => "send the output elsewhere, or make its destination writable",
    }
}

fn of_address(address: SocketAddr, cause: Cause) -> String {
    let (ip, port) = (address.ip(), address.port());
    match cause {
        Cause::Taken => format!(
            "find the process that listens there with `ss -ltnp 'sport = :{port}'`, and end it, or choose \
             another port"
        ),
        Cause::Foreign => {
            format!("this machine has no address {ip}: `ip -br addr` lists its addresses")
        }
        Cause::Denied if port < 1024 => format!(
            "ports below 1024 are for root: choose a port from 1024 on (that of iSCSI is 3260), or let the \
             program have port {port} with AmbientCapabilities=CAP_NET_BIND_SERVICE in its unit file"
        ),
        Cause::Denied => format!(
            "a rule of this machine forbids it (SELinux, AppArmor): see `journalctl -k -g denied`, or choose another port than {port}"
        ),
        Cause::NoFamily => "this machine does not speak IPv6: choose an IPv4 address".to_owned(),
        // Linux refuses a link-local address without its interface with this error.
        Cause::Malformed if address.is_ipv6() => format!(
            "a link-local address needs the number of its interface, as in [{ip}%2]:{port}: `ip -6 -br addr` \
             shows the addresses"
        ),
        _ => "choose another address: `ip -br addr` lists the addresses of this machine".to_owned(),
    }
}

fn of_socket_file(path: &Path, cause: Cause) -> String {
    let folder = folder_of(path).display();
    match cause {
        Cause::Taken => "stop the process that serves there, or choose another path".to_owned(),
        Cause::Exists => "choose a path that does not exist yet".to_owned(),
        Cause::Missing => format!("make the folder first: `mkdir -p {folder}`"),
        Cause::Denied => {
            format!("choose a folder that you may write to: `ls -ld {folder}` shows its owner")
        }
        Cause::ReadOnly => {
            format!("the file system of {folder} is read-only: choose another folder")
        }
        Cause::Full => format!(
            "free some space in {folder} (`df -h {folder}` shows the free space), or choose another folder"
        ),
        Cause::Malformed => "choose a shorter path: the kernel allows 107 bytes".to_owned(),
        Cause::WrongKind => format!("{folder} is not a folder: choose another path"),
        _ => format!("choose another path than {}", path.display()),
    }
}

/// Returns the folder that contains a file.
fn folder_of(path: &Path) -> &Path {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests;
