//! Kernel and root disk of the guest, built from Debian packages and cached.
//!
//! Emulation is slow, so all that can be done once on the host is done there. The kernel is
//! unpacked to a plain ELF file (QEMU enters it by PVH). Modules are stored uncompressed, and only
//! those that a storage client needs are there.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::linux_guest::cpio::Archive;
use crate::machine::packages::{Bundle, Tools, cache_folder};
use crate::machine::process;

const LIMIT: Duration = Duration::from_secs(180);

const PACKAGES: &[&str] = &[
    "bash",
    "busybox-static",
    "coreutils",
    "diffutils",
    "dmsetup",
    "e2fsprogs",
    "findutils",
    "gawk",
    "grep",
    "iproute2",
    "kmod",
    "mount",
    "multipath-tools",
    "open-iscsi",
    "procps",
    "sed",
    "sg3-utils",
    "udev",
    "util-linux",
    "xfsprogs",
];
const KERNEL: &[&str] = &["linux-image-amd64"];

/// Modules of the guest's root disk. The modules that they need are added.
const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    "virtio_console",
    "virtio_rng",
    "ext4",
    "xfs",
    "crc32c_generic",
    "iscsi_tcp",
    "iscsi_ibft",
    "sd_mod",
    "sg",
    "dm_mod",
    "dm_multipath",
    "dm_round_robin",
    "dm_service_time",
    "scsi_dh_alua",
];
/// Modules that the first file system loads to reach the root disk.
const FIRST_MODULES: &[&str] = &["virtio_pci", "virtio_blk", "ext4", "crc32c_generic"];

/// Version of the recipe below. A change makes cached images stale.
const RECIPE: &str = "1";
const INIT: &str = include_str!("../../guest/init.sh");
const FIRST_INIT: &str = include_str!("../../guest/first-init.sh");

/// Kernel and disk for a boot.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    /// Uncompressed kernel.
    pub(crate) kernel: PathBuf,
    /// First file system. A lab's own archive is laid behind it.
    pub(crate) initrd: PathBuf,
    /// Root disk, raw ext4. Guests write to a throw-away copy.
    pub(crate) disk: PathBuf,
    /// Kernel as Debian ships it.
    pub(crate) compressed_kernel: PathBuf,
    /// Unpacked packages of the root disk.
    pub(crate) packages: Bundle,
    /// All modules of the kernel.
    pub(crate) modules: Modules,
}

impl Image {
    /// Returns the image, rebuilt if Debian's versions or the recipe changed.
    ///
    /// # Errors
    /// Fails as [`Bundle::prepare`] does, or if a step of the recipe fails.
    pub(crate) fn prepare(tools: &Tools) -> Result<Self> {
        let machines = tools.machines()?;
        let packages = Bundle::prepare("guest", PACKAGES)?;
        let kernel = Bundle::prepare("kernel", KERNEL)?;
        let folder = cache_folder()?.join("image");
        let lock = File::create(folder.with_extension("lock"))?;
        lock.lock().context("lock the guest image")?;
        let key = format!(
            "{RECIPE}\n{INIT}\n{FIRST_INIT}\n{}\n{}",
            packages.contents, kernel.contents
        );
        let modules = Modules::of(machines, &kernel.root)?;
        let image = Self {
            kernel: folder.join("vmlinux"),
            initrd: folder.join("initrd"),
            disk: folder.join("root.img"),
            compressed_kernel: kernel
                .root
                .join("boot")
                .join(format!("vmlinuz-{}", modules.version)),
            packages,
            modules,
        };
        if fs::read_to_string(folder.join("key")).ok().as_deref() != Some(&key) {
            println!("  building the guest image in {}", folder.display());
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder)?;
            image.build(machines, &folder)?;
            fs::write(folder.join("key"), key)?;
        }
        Ok(image)
    }

    fn build(&self, machines: &Bundle, folder: &Path) -> Result<()> {
        extract_kernel(&self.compressed_kernel, &self.kernel)?;
        fs::write(&self.initrd, self.first_file_system()?)?;
        let tree = folder.join("tree");
        copy(&self.packages.root, &tree)?;
        furnish(&tree)?;
        self.modules.install(machines, MODULES, &tree)?;
        make_ext4(machines, &tree, &self.disk, None)?;
        fs::remove_dir_all(&tree).context("remove the staging tree")
    }

    fn first_file_system(&self) -> Result<Vec<u8>> {
        let mut archive = Archive::default();
        for name in ["bin", "dev", "modules", "proc", "sys", "target"] {
            archive.folder(name);
        }
        archive.file("bin/busybox", 0o755, &self.busybox()?);
        self.modules.archive(FIRST_MODULES, &mut archive)?;
        archive.file("init", 0o755, FIRST_INIT.as_bytes());
        Ok(archive.finish())
    }

    /// Returns a shell and its tools in one static program.
    ///
    /// # Errors
    /// The program cannot be read.
    pub(crate) fn busybox(&self) -> Result<Vec<u8>> {
        fs::read(self.packages.root.join("usr/bin/busybox")).context("read busybox")
    }
}

/// Modules of one kernel, and the needs of each.
#[derive(Clone, Debug)]
pub(crate) struct Modules {
    /// Version of the kernel.
    pub(crate) version: String,
    folder: PathBuf,
    /// Relative path of each module, then of those it needs, in the order of modules.dep.
    dependencies: Vec<Vec<String>>,
    builtin: String,
}

impl Modules {
    fn of(machines: &Bundle, root: &Path) -> Result<Self> {
        let all = root.join("usr/lib/modules");
        let version = fs::read_dir(&all)
            .with_context(|| format!("list {}", all.display()))?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .next()
            .context("the kernel package has no modules")?;
        let folder = all.join(&version);
        if !folder.join("modules.dep").exists() {
            let mut depmod = machines.command("depmod")?;
            depmod.arg("-b").arg(root).arg(&version);
            process::output(depmod, LIMIT)?;
        }
        let text = fs::read_to_string(folder.join("modules.dep")).context("read modules.dep")?;
        let dependencies = text
            .lines()
            .map(|line| {
                line.replace(':', " ")
                    .split_whitespace()
                    .map(str::to_owned)
                    .collect()
            })
            .collect();
        let builtin =
            fs::read_to_string(folder.join("modules.builtin")).context("read modules.builtin")?;
        Ok(Self {
            version,
            folder,
            dependencies,
            builtin,
        })
    }

    /// Returns the relative paths of `names` and of all modules they need, in an order in which to
    /// load them.
    fn closure(&self, names: &[&str]) -> Result<Vec<String>> {
        let mut seen = BTreeSet::new();
        let mut order = Vec::new();
        for name in names {
            if self.builtin.lines().any(|path| stem(path) == *name) {
                continue;
            }
            let line = self
                .dependencies
                .iter()
                .find(|line| line.first().is_some_and(|path| stem(path) == *name));
            let line = line.with_context(|| format!("the kernel has no module {name}"))?;
            // modules.dep names needed modules from last to first.
            for path in line.iter().rev() {
                if seen.insert(path.clone()) {
                    order.push(path.clone());
                }
            }
        }
        Ok(order)
    }

    /// Puts `names` into `archive` as `modules/NN.ko`, to be loaded in the order of their numbers.
    ///
    /// # Errors
    /// The kernel lacks one.
    pub(crate) fn archive(&self, names: &[&str], archive: &mut Archive) -> Result<()> {
        for (number, path) in self.closure(names)?.iter().enumerate() {
            let data = fs::read(self.folder.join(path))
                .with_context(|| format!("read the module {path}"))?;
            archive.file(&format!("modules/{number:02}.ko"), 0o644, &data);
        }
        Ok(())
    }

    /// Installs `names` below `tree`, with an index by which modprobe and udev find them.
    ///
    /// # Errors
    /// The kernel lacks one, or depmod fails.
    pub(crate) fn install(&self, machines: &Bundle, names: &[&str], tree: &Path) -> Result<()> {
        let target = tree.join("usr/lib/modules").join(&self.version);
        let _ = fs::remove_dir_all(tree.join("usr/lib/modules"));
        for path in self.closure(names)? {
            let file = target.join(&path);
            fs::create_dir_all(file.parent().context("a module without a folder")?)?;
            fs::copy(self.folder.join(&path), file)?;
        }
        for list in [
            "modules.builtin",
            "modules.builtin.modinfo",
            "modules.order",
        ] {
            fs::copy(self.folder.join(list), target.join(list))?;
        }
        let mut depmod = machines.command("depmod")?;
        depmod.arg("-b").arg(tree).arg(&self.version);
        process::output(depmod, LIMIT).map(drop)
    }
}

/// Returns the module's name as the kernel spells it.
fn stem(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.').next().unwrap_or(file).replace('-', "_")
}

/// Makes `disk` an ext4 file system with the contents of `tree`, of `size_mib` or as large as
/// needed.
///
/// # Errors
/// mke2fs fails.
pub(crate) fn make_ext4(
    machines: &Bundle,
    tree: &Path,
    disk: &Path,
    size_mib: Option<u64>,
) -> Result<()> {
    let size = match size_mib {
        Some(size) => size,
        None => {
            let mut command = Command::new("du");
            command.arg("-sm").arg(tree);
            let text = process::output(command, LIMIT)?;
            let used: u64 = text
                .split_whitespace()
                .next()
                .context("du said nothing")?
                .parse()?;
            used * 115 / 100 + 64
        }
    };
    let mut command = machines.command("mke2fs")?;
    command.args([
        "-q",
        "-F",
        "-t",
        "ext4",
        "-O",
        "^has_journal,^metadata_csum_seed,^orphan_file",
        "-E",
        "root_owner=0:0",
        "-d",
    ]);
    command.arg(tree).arg(disk).arg(format!("{size}M"));
    process::output(command, LIMIT).map(drop)
}

/// Extracts Debian's kernel, a small program with the real one inside, packed by xz.
fn extract_kernel(packed: &Path, plain: &Path) -> Result<()> {
    const XZ: &[u8] = b"\xfd7zXZ\0";
    let bytes = fs::read(packed).with_context(|| format!("read {}", packed.display()))?;
    let part = plain.with_extension("xz");
    for start in (0..bytes.len() - XZ.len()).filter(|&start| bytes[start..].starts_with(XZ)) {
        fs::write(&part, &bytes[start..])?;
        // The bytes after the packed kernel are not xz's, so its complaint about them is expected.
        let status = Command::new("xz")
            .args(["--decompress", "--stdout", "--single-stream", "--quiet"])
            .stdin(File::open(&part)?)
            .stdout(File::create(plain)?)
            .stderr(Stdio::null())
            .status()
            .context("start xz (Debian package xz-utils)")?;
        let is_elf = fs::read(plain)?.starts_with(b"\x7fELF");
        if is_elf && status.code().is_some_and(|code| code == 0 || code == 2) {
            fs::remove_file(&part)?;
            return Ok(());
        }
    }
    bail!("no xz-packed kernel in {}", packed.display())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp")
        .arg("-a")
        .arg(from)
        .arg(to)
        .status()
        .context("start cp")?;
    ensure!(status.success(), "cannot copy {}", from.display());
    Ok(())
}

/// Makes the users, folders and links that maintainer scripts would have made.
fn furnish(tree: &Path) -> Result<()> {
    for path in [
        "usr/share/perl",
        "usr/share/perl5",
        "usr/lib/x86_64-linux-gnu/perl",
        "usr/lib/x86_64-linux-gnu/perl-base",
        "usr/share/zoneinfo",
    ] {
        let _ = fs::remove_dir_all(tree.join(path));
    }
    for folder in [
        "dev",
        "etc/iscsi",
        "etc/multipath",
        "lab",
        "mnt",
        "proc",
        "root",
        "run",
        "sys",
        "tmp",
        "var/lib/iscsi",
        "var/log",
    ] {
        fs::create_dir_all(tree.join(folder))?;
    }
    for (link, to) in [
        ("usr/bin/sh", "bash"),
        ("usr/bin/awk", "gawk"),
        ("var/run", "/run"),
        ("var/lock", "/run/lock"),
    ] {
        let link = tree.join(link);
        let _ = fs::remove_dir_all(&link);
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(to, &link)
            .with_context(|| format!("link {}", link.display()))?;
    }
    let groups = [
        "root:0",
        "tty:5",
        "disk:6",
        "lp:7",
        "dialout:20",
        "cdrom:24",
        "tape:26",
        "audio:29",
        "video:44",
        "kmem:15",
        "kvm:108",
        "render:109",
        "input:110",
        "sgx:111",
        "nogroup:65534",
    ];
    let groups: String = groups
        .iter()
        .map(|group| format!("{}:\n", group.replace(':', ":x:")))
        .collect();
    let files: &[(&str, &str)] = &[
        (
            "etc/passwd",
            "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n",
        ),
        ("etc/group", &groups),
        (
            "etc/nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files\n",
        ),
        ("etc/hosts", "127.0.0.1 localhost\n"),
        (
            "etc/iscsi/initiatorname.iscsi",
            "InitiatorName=iqn.2026-01.org.sandstone.conformance:guest\n",
        ),
        ("lab-init", INIT),
    ];
    for (name, text) in files {
        let path = tree.join(name);
        let _ = fs::remove_file(&path);
        fs::write(&path, text).with_context(|| format!("write {name}"))?;
    }
    let status = Command::new("chmod")
        .arg("+x")
        .arg(tree.join("lab-init"))
        .status()?;
    ensure!(status.success(), "cannot make the guest's init executable");
    // Without the loader cache every program of the guest searches its libraries anew.
    let _ = Command::new("/usr/sbin/ldconfig")
        .arg("-r")
        .arg(tree)
        .stderr(Stdio::null())
        .status();
    Ok(())
}
