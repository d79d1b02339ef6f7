//! Lab in which a guest without any disk boots from the unit: SeaBIOS, iPXE, `sanboot`, GRUB over
//! INT 13h, Linux, the iBFT, open-iscsi's iscsistart, and a root file system on the unit.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::lab::{Bench, Lab, Outcome, Room};
use crate::linux_guest::cpio::Archive;
use crate::linux_guest::{Image, firmware, make_ext4};
use crate::machine::packages::Bundle;
use crate::machine::{process, scratch};
use crate::qemu_img;
use crate::servers::server::{Server, Spec};

const LIMIT: Duration = Duration::from_secs(150);
const DISK_MIB: u64 = 96;
/// Offset of the only partition, in MiB.
const PARTITION_MIB: u64 = 1;
const SECTOR: u64 = 512;
const TOKEN: &str = "what the diskless guest has to hash\n";
const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_net",
    "crc32c_generic",
    "iscsi_tcp",
    "iscsi_ibft",
    "sd_mod",
    "ext4",
];
const DONE: &str = "lab: the root disk reads back what was written";

/// Lab of the boot.
pub(crate) const LABS: &[Lab] = &[Lab {
    name: "diskless-boot",
    about: "a guest without a disk boots from the unit by iPXE and writes to its root there",
    room: Room::Guest,
    run,
}];

fn run(bench: &Bench) -> Result<Outcome> {
    let image = Image::prepare(&bench.tools)?;
    let machines = bench.tools.machines()?;
    let mut server = bench.serve(Spec {
        size_mib: DISK_MIB,
        ..Spec::default()
    })?;
    let folder = scratch::folder("boot")?;
    let disk = build_disk(machines, &image, folder.path())?;
    let copy = |arguments: &[&str]| process::output(qemu_img::tool(bench, arguments)?, LIMIT);
    let (disk_name, url) = (disk.to_string_lossy(), server.url(0));
    copy(&["convert", "-n", "-f", "raw", "-O", "raw", &disk_name, &url])?;

    let start = Instant::now();
    let console = boot(machines, &server, folder.path())?;
    let seconds = start.elapsed().as_secs_f64();
    server.check_alive()?;
    ensure!(
        console.contains(DONE),
        "the guest did not come through:\n{}",
        process::last_lines(&console, 40)
    );

    // The unit must really hold the data that the guest claims.
    copy(&["convert", "-f", "raw", "-O", "raw", &url, &disk_name])?;
    let proof = sha256(TOKEN, folder.path())?;
    let bytes = fs::read(&disk)?;
    ensure!(
        bytes
            .windows(proof.len())
            .any(|window| window == proof.as_bytes()),
        "the file that the guest wrote is not on the unit"
    );
    Ok(Outcome::passed(format!(
        "booted and wrote in {seconds:.1} s"
    )))
}

/// Builds a disk as a PC's firmware wants it: GRUB in the first MiB, then one ext4 partition.
fn build_disk(machines: &Bundle, image: &Image, folder: &Path) -> Result<PathBuf> {
    let tree = folder.join("tree");
    for name in ["bin", "dev", "proc", "sys"] {
        fs::create_dir_all(tree.join(name))?;
    }
    fs::write(tree.join("bin/busybox"), image.busybox()?)?;
    fs::write(tree.join("init"), include_str!("../guest/boot-root.sh"))?;
    fs::write(tree.join("token"), TOKEN)?;
    let mut chmod = Command::new("chmod");
    chmod
        .arg("+x")
        .arg(tree.join("init"))
        .arg(tree.join("bin/busybox"));
    process::output(chmod, LIMIT)?;
    fs::copy(&image.compressed_kernel, tree.join("vmlinuz"))?;
    pack(&first_file_system(image)?, &tree.join("initrd"))?;
    let partition = folder.join("partition");
    make_ext4(machines, &tree, &partition, Some(DISK_MIB - PARTITION_MIB))?;

    let boot = machines.root.join("usr/lib/grub/i386-pc");
    let core = grub_core(machines, &boot, folder)?;
    let mut first = fs::read(boot.join("boot.img")).context("read GRUB's boot sector")?;
    first.resize(SECTOR as usize, 0);
    partition_table(&mut first);
    let disk = folder.join("disk.raw");
    let file = File::create(&disk)?;
    file.set_len(DISK_MIB << 20)?;
    file.write_all_at(&first, 0)?;
    file.write_all_at(&core, SECTOR)?;
    file.write_all_at(&fs::read(&partition)?, PARTITION_MIB << 20)?;
    Ok(disk)
}

fn grub_core(machines: &Bundle, modules: &Path, folder: &Path) -> Result<Vec<u8>> {
    let (script, core) = (folder.join("grub.cfg"), folder.join("core.img"));
    fs::write(
        &script,
        "set root=(hd0,msdos1)\n\
         linux /vmlinuz console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off no_timer_check\n\
         initrd /initrd\nboot\n",
    )?;
    let mut command = machines.command("grub-mkimage")?;
    command
        .arg("-d")
        .arg(modules)
        .args(["-O", "i386-pc", "-p", "(hd0,msdos1)/", "-c"])
        .arg(&script)
        .arg("-o")
        .arg(&core);
    command.args(["biosdisk", "part_msdos", "ext2", "linux", "boot"]);
    process::output(command, LIMIT)?;
    let bytes = fs::read(&core)?;
    ensure!(
        bytes.len() as u64 <= (PARTITION_MIB << 20) - SECTOR,
        "GRUB does not fit before the partition"
    );
    Ok(bytes)
}

/// Writes one active partition of type Linux, addressed by LBA.
fn partition_table(sector: &mut [u8]) {
    let start = (PARTITION_MIB << 20) / SECTOR;
    let count = ((DISK_MIB - PARTITION_MIB) << 20) / SECTOR;
    let mut entry = [
        0x80, 0xfe, 0xff, 0xff, 0x83, 0xfe, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    entry[8..12].copy_from_slice(&(start as u32).to_le_bytes());
    entry[12..16].copy_from_slice(&(count as u32).to_le_bytes());
    sector[446..510].fill(0);
    sector[446..462].copy_from_slice(&entry);
    sector[510..512].copy_from_slice(&[0x55, 0xaa]);
}

fn first_file_system(image: &Image) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for folder in [
        "bin", "dev", "etc", "lib64", "modules", "proc", "run", "sys", "target", "usr", "usr/lib",
        "usr/sbin",
    ] {
        archive.folder(folder);
    }
    archive.folder("usr/lib/x86_64-linux-gnu");
    archive.file("bin/busybox", 0o755, &image.busybox()?);
    for (path, file) in image.packages.with_libraries("iscsistart")? {
        let bytes = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
        archive.file(&path, 0o755, &bytes);
    }
    image.modules.archive(MODULES, &mut archive)?;
    archive.file("init", 0o755, include_bytes!("../guest/boot-first.sh"));
    Ok(archive.finish())
}

/// Packs bytes with gzip, because small files are read fast over INT 13h.
fn pack(bytes: &[u8], file: &Path) -> Result<()> {
    let plain = file.with_extension("plain");
    fs::write(&plain, bytes)?;
    let status = Command::new("gzip")
        .args(["-1", "-c"])
        .stdin(File::open(&plain)?)
        .stdout(File::create(file)?)
        .stderr(Stdio::inherit())
        .status()
        .context("start gzip")?;
    fs::remove_file(&plain)?;
    ensure!(status.success(), "gzip failed");
    Ok(())
}

/// Boots until the guest powers itself off, and returns its serial console.
fn boot(machines: &Bundle, server: &Server, folder: &Path) -> Result<String> {
    let tftp = folder.join("tftp");
    fs::create_dir_all(&tftp)?;
    let portal = server.portal(0);
    let (_, port) = portal.rsplit_once(':').context("a portal without a port")?;
    // QEMU's user network shows the host's 127.0.0.1 as 10.0.2.2.
    fs::write(
        tftp.join("boot.ipxe"),
        format!(
            "#!ipxe\nset initiator-iqn iqn.2026-01.org.sandstone.conformance:diskless\n\
             sanboot --keep iscsi:10.0.2.2::{port}:{:x}:{} || echo lab: sanboot failed ${{errno}}\nsleep 2\npoweroff\n",
            server.lun, server.target
        ),
    )?;
    let mut command = machines.command("qemu-system-x86_64")?;
    firmware(&mut command, machines);
    command.args([
        "-M",
        "pc,graphics=off",
        "-accel",
        "tcg",
        "-cpu",
        "max",
        "-m",
        "512",
    ]);
    command.args([
        "-display",
        "none",
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
    ]);
    command.arg("-netdev").arg(format!(
        "user,id=net,tftp={},bootfile=boot.ipxe",
        tftp.display()
    ));
    command.args(["-device", "virtio-net-pci,netdev=net,bootindex=1"]);
    let console = folder.join("console.log");
    command
        .arg("-serial")
        .arg(format!("file:{}", console.display()));
    let log = folder.join("qemu.log");
    let mut machine = process::start_logged(command, &log)?;
    let ended = machine.wait(LIMIT);
    machine.kill();
    let text = String::from_utf8_lossy(&fs::read(&console).unwrap_or_default()).replace('\r', "\n");
    if let Err(error) = ended {
        let log = fs::read_to_string(&log).unwrap_or_default();
        bail!(
            "{error:#}; the end of the console:\n{}\n{log}",
            process::last_lines(&text, 40)
        );
    }
    Ok(text)
}

fn sha256(text: &str, folder: &Path) -> Result<String> {
    let file = folder.join("token");
    fs::write(&file, text)?;
    let mut command = Command::new("sha256sum");
    command.arg(&file);
    let output = process::output(command, LIMIT)?;
    Ok(output
        .split_whitespace()
        .next()
        .context("sha256sum said nothing")?
        .to_owned())
}
