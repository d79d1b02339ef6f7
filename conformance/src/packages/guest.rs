//! The guest of the package: Debian with systemd, on a disk that is made for it, and a second disk
//! for a pool. It needs no network: it is its own client.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::{figures, put_packages, system};
use crate::lab::{Bench, Outcome};
use crate::linux_guest::cpio::Archive;
use crate::linux_guest::{Image, firmware, make_ext4};
use crate::machine::packages::Bundle;
use crate::machine::{process, scratch};

/// Longest time that the guest takes. It is emulated: KVM is not to be had everywhere.
const LIMIT: Duration = Duration::from_secs(900);
const DISK_MIB: u64 = 2048;
const POOL_MIB: u64 = 1024;
const PACKAGES: &str = "adduser,debconf,init-system-helpers,systemd,systemd-sysv,udev,dbus,\
                        open-iscsi,procps,iproute2,kmod";
const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_blk",
    "virtio_rng",
    "ext4",
    "crc32c_generic",
    "iscsi_tcp",
    "sd_mod",
    "sg",
];

/// Unit that runs the script once the system is up, and turns the guest off.
const UNIT: &str = "\
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=-/bin/bash /lab.sh VERSION
ExecStart=/bin/systemctl poweroff --force --force
StandardOutput=file:/dev/ttyS0
StandardError=inherit
TimeoutStartSec=infinity
[Install]
WantedBy=multi-user.target
";

pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    let image = Image::prepare(&bench.tools)?;
    let machines = bench.tools.machines()?;
    let folder = scratch::folder("package-guest")?;
    let root = match system("systemd", PACKAGES, folder.path())? {
        Ok(root) => root,
        Err(reason) => return Ok(Outcome::Skipped(reason)),
    };
    let version = put_packages(bench, &root)?;
    furnish(&root, &version)?;
    let (disk, pool) = (folder.path().join("disk"), folder.path().join("pool"));
    make_ext4(machines, &root, &disk, Some(DISK_MIB))?;
    File::create(&pool)?.set_len(POOL_MIB << 20)?;
    let initrd = folder.path().join("initrd");
    fs::write(&initrd, first_file_system(&image)?)?;
    let console = boot(machines, &image, folder.path())?;
    figures(&console)
}

/// Adds the script, and the unit that runs it, to the system.
fn furnish(root: &Path, version: &str) -> Result<()> {
    fs::write(
        root.join("lab.sh"),
        include_str!("../../packages/systemd.sh"),
    )?;
    let units = root.join("etc/systemd/system");
    fs::write(units.join("lab.service"), UNIT.replace("VERSION", version))?;
    let wants = units.join("multi-user.target.wants");
    fs::create_dir_all(&wants)?;
    std::os::unix::fs::symlink("../lab.service", wants.join("lab.service"))?;
    // The script starts iscsid itself, with the module that the first program has loaded.
    for unit in ["iscsid.service", "open-iscsi.service", "iscsid.socket"] {
        std::os::unix::fs::symlink("/dev/null", units.join(unit)).or_else(|error| {
            match error.kind() {
                std::io::ErrorKind::AlreadyExists => Ok(()),
                _ => Err(error),
            }
        })?;
    }
    fs::write(
        root.join("etc/iscsi/initiatorname.iscsi"),
        "InitiatorName=iqn.2026-01.org.sandstone.conformance:guest\n",
    )?;
    // The first program changes to this one.
    let first = root.join("lab-init");
    fs::write(&first, "#!/bin/sh\nexec /lib/systemd/systemd\n")?;
    fs::set_permissions(&first, fs::Permissions::from_mode(0o755))?;
    fs::create_dir_all(root.join("lab")).context("make a folder")
}

fn first_file_system(image: &Image) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "lab", "modules", "proc", "sys", "target"] {
        archive.folder(folder);
    }
    archive.file("lab/empty", 0o644, b"");
    archive.file("bin/busybox", 0o755, &image.busybox()?);
    image.modules.archive(MODULES, &mut archive)?;
    archive.file("init", 0o755, include_bytes!("../../guest/first-init.sh"));
    Ok(archive.finish())
}

/// Boots until the guest powers itself off, and returns its serial console.
fn boot(machines: &Bundle, image: &Image, folder: &Path) -> Result<String> {
    let mut command = machines.command("qemu-system-x86_64")?;
    firmware(&mut command, machines);
    command.args([
        "-M",
        "q35,usb=off",
        "-cpu",
        "max",
        "-smp",
        "2",
        "-m",
        "1024",
    ]);
    command.args(["-accel", "tcg,thread=multi"]);
    command.args([
        "-display",
        "none",
        "-vga",
        "none",
        "-nodefaults",
        "-no-user-config",
    ]);
    command.arg("-no-reboot");
    command.arg("-kernel").arg(&image.kernel);
    command.arg("-initrd").arg(folder.join("initrd"));
    command.args([
        "-append",
        "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off random.trust_cpu=on \
         no_timer_check clocksource=hpet tsc=unstable systemd.show_status=no",
    ]);
    for disk in ["disk", "pool"] {
        let path = folder.join(disk);
        let drive = format!(
            "file={},if=none,id={disk},format=raw,cache=unsafe",
            path.display()
        );
        let device = format!("virtio-blk-pci,drive={disk}");
        command.args(["-drive", &drive, "-device", &device]);
    }
    command.args(["-device", "virtio-rng-pci"]);
    let console = folder.join("console.log");
    command
        .arg("-serial")
        .arg(format!("file:{}", console.display()));
    let log = folder.join("qemu.log");
    let mut machine = process::start_logged(command, &log)?;
    let ended = machine.wait(LIMIT);
    machine.kill();
    let text = String::from_utf8_lossy(&fs::read(&console).unwrap_or_default()).replace('\r', "");
    if let Err(error) = ended {
        let log = fs::read_to_string(&log).unwrap_or_default();
        bail!(
            "{error:#}; the end of the console:\n{}\n{log}",
            process::last_lines(&text, 40)
        );
    }
    Ok(text)
}
