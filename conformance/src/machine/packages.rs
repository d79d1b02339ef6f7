//! Debian packages that the labs need, unpacked into a cache and run from there.
//!
//! Nothing is installed on the machine, so nothing on it can break or conflict. A [`Bundle`] is the
//! whole dependency closure of a few packages, down to the C library. Its programs are started
//! through its own dynamic loader. A bundle is rebuilt when Debian has other versions. Programs
//! that the machine already has (`iscsi-test-cu`, `tgtd`, `isnsd`) are used as they are.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};

use crate::machine::process;

const DOWNLOAD: Duration = Duration::from_secs(300);
const LOADER: &str = "ld-linux-x86-64.so.2";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// Folder of libraries that are found by an absolute RUNPATH, which leads out of the tree: Ceph's,
/// for fio.
const PRIVATE: &str = "ceph";

/// Packages of iscsi-test-cu and its siblings, the peer target, the iSNS server, and the tool that
/// measures networks.
pub(crate) const CLIENTS: &[&str] = &[
    "libiscsi-bin",
    "tgt",
    "open-isns-server",
    "open-isns-utils",
    "iperf3",
];

/// Packages of QEMU with its iSCSI driver and firmware, libvirt with iscsi-direct, GRUB to make a
/// disk boot, and kmod and e2fsprogs to build images.
pub(crate) const MACHINES: &[&str] = &[
    "qemu-system-x86",
    "qemu-utils",
    "qemu-block-extra",
    "ipxe-qemu",
    "seabios",
    "libvirt-daemon",
    "libvirt-daemon-driver-storage-iscsi-direct",
    "libvirt-clients",
    "grub-common",
    "grub-pc-bin",
    "kmod",
    "e2fsprogs",
];

/// Packages of libnbd's tools, nbdkit with its plugins and filters, fio with its engine nbd, and
/// openssl to make certificates.
pub(crate) const NBD: &[&str] = &["libnbd-bin", "nbdkit", "fio", "openssl"];

/// Package of Prometheus and promtool.
pub(crate) const PROMETHEUS: &[&str] = &["prometheus"];
/// Packages of the terminal in which `top` runs, with descriptions of terminals, and of the iostat
/// that ours is compared with.
pub(crate) const TERMINAL: &[&str] = &["tmux", "ncurses-base", "sysstat"];

/// Unpacked set of packages.
#[derive(Clone, Debug)]
pub(crate) struct Bundle {
    /// Root of the file tree.
    pub(crate) root: PathBuf,
    /// List of the package files of the tree, one a line, sorted.
    pub(crate) contents: String,
}

impl Bundle {
    /// Returns the bundle `name` of `packages`, rebuilt if Debian's versions changed.
    ///
    /// # Errors
    /// The machine has no apt-get, or it cannot find or download the packages.
    pub(crate) fn prepare(name: &str, packages: &[&str]) -> Result<Self> {
        let cache = cache_folder()?;
        let lock =
            File::create(cache.join(format!("{name}.lock"))).context("create a lock file")?;
        lock.lock().context("lock the package cache")?;
        let folder = cache.join(name);
        let have = fs::read_to_string(folder.join("contents")).ok();
        let contents = match (resolve(packages), have) {
            (Ok(wanted), Some(have)) if have == wanted => have,
            // Without lists of packages (a machine without network) the existing bundle is used.
            (Err(_), Some(have)) => have,
            (Ok(wanted), _) => match build(&folder, packages, &wanted) {
                Ok(()) => wanted,
                // The lists may name files that Debian has replaced since.
                Err(first) => {
                    update(&first)?;
                    let wanted = list(packages)?;
                    build(&folder, packages, &wanted)?;
                    wanted
                }
            },
            (Err(error), None) => return Err(error),
        };
        Ok(Self {
            root: folder.join("root"),
            contents,
        })
    }

    /// Builds a command that runs the bundle's program `name` with the bundle's libraries.
    ///
    /// # Errors
    /// The bundle has no program of this name.
    pub(crate) fn command(&self, name: &str) -> Result<Command> {
        let program = self.program(name)?;
        let libraries = self.root.join(LIBRARIES);
        let mut command = Command::new(libraries.join(LOADER));
        command
            .arg("--library-path")
            .arg(library_path(&libraries))
            .arg("--argv0")
            .arg(name)
            .arg(program)
            .env("QEMU_MODULE_DIR", libraries.join("qemu"))
            .env(
                "LIBVIRT_DRIVER_DIR",
                libraries.join("libvirt/connection-driver"),
            )
            .env(
                "LIBVIRT_STORAGE_BACKEND_DIR",
                libraries.join("libvirt/storage-backend"),
            );
        Ok(command)
    }

    /// Returns the folder of the modules that the program `name` loads while it runs.
    pub(crate) fn modules(&self, name: &str) -> PathBuf {
        self.root.join(LIBRARIES).join(name)
    }

    /// Returns the program `name` and the libraries it loads. Each is its path in a root file
    /// system, and the file that has it.
    ///
    /// # Errors
    /// The bundle lacks the program or a library.
    pub(crate) fn with_libraries(&self, name: &str) -> Result<Vec<(String, PathBuf)>> {
        let libraries = self.root.join(LIBRARIES);
        let program = self.program(name)?;
        let loader = libraries.join(LOADER);
        let mut command = Command::new(&loader);
        command
            .arg("--library-path")
            .arg(library_path(&libraries))
            .arg("--list")
            .arg(&program);
        let text = process::output(command, DOWNLOAD)?;
        let mut files = vec![
            (format!("usr/sbin/{name}"), program),
            (format!("lib64/{LOADER}"), loader),
        ];
        for path in text.lines().filter_map(|line| line.split_once(" => ")) {
            let path = PathBuf::from(path.1.split(" (").next().unwrap_or_default());
            let file = path
                .file_name()
                .with_context(|| format!("{name} lacks a library:\n{text}"))?;
            if file != LOADER {
                files.push((format!("{LIBRARIES}/{}", file.to_string_lossy()), path));
            }
        }
        Ok(files)
    }

    fn program(&self, name: &str) -> Result<PathBuf> {
        ["usr/bin", "usr/sbin"]
            .iter()
            .map(|folder| self.root.join(folder).join(name))
            .find(|path| path.symlink_metadata().is_ok())
            .map(|path| self.within(path))
            .with_context(|| format!("the unpacked packages have no program {name}"))
    }

    /// Follows an absolute link inside the tree rather than on the machine.
    fn within(&self, path: PathBuf) -> PathBuf {
        match fs::read_link(&path) {
            Ok(link) if link.is_absolute() => {
                self.root.join(link.strip_prefix("/").unwrap_or(&link))
            }
            _ => path,
        }
    }
}

/// Returns the library path for the dynamic loader.
fn library_path(libraries: &Path) -> OsString {
    let mut path = libraries.as_os_str().to_owned();
    path.push(":");
    path.push(libraries.join(PRIVATE));
    path
}

/// Sources of the programs of the labs.
#[derive(Debug)]
pub(crate) struct Tools {
    clients: Option<Bundle>,
    machines: std::sync::OnceLock<Bundle>,
    nbd: std::sync::OnceLock<Bundle>,
    prometheus: std::sync::OnceLock<Bundle>,
    terminal: std::sync::OnceLock<Bundle>,
}

impl Tools {
    /// Inspects the machine, and unpacks the packages that it lacks.
    ///
    /// # Errors
    /// Fails as [`Bundle::prepare`] does.
    pub(crate) fn prepare() -> Result<Self> {
        let wanted = [
            "iscsi-test-cu",
            "iscsi-ls",
            "iscsi-inq",
            "iscsi-perf",
            "tgtd",
            "tgtadm",
            "isnsd",
            "isnsadm",
            "iperf3",
        ];
        let clients = if wanted.iter().all(|name| on_path(name).is_some()) {
            None
        } else {
            Some(Bundle::prepare("clients", CLIENTS)?)
        };
        Ok(Self {
            clients,
            machines: std::sync::OnceLock::new(),
            nbd: std::sync::OnceLock::new(),
            prometheus: std::sync::OnceLock::new(),
            terminal: std::sync::OnceLock::new(),
        })
    }

    /// Builds a command for a program of [`CLIENTS`].
    ///
    /// # Errors
    /// The program is not found.
    pub(crate) fn client(&self, name: &str) -> Result<Command> {
        match &self.clients {
            Some(bundle) => bundle.command(name),
            None => Ok(Command::new(
                on_path(name).with_context(|| format!("{name} is gone"))?,
            )),
        }
    }

    /// Returns the bundle of [`MACHINES`].
    ///
    /// # Errors
    /// Fails as [`Bundle::prepare`] does.
    pub(crate) fn machines(&self) -> Result<&Bundle> {
        once(&self.machines, "machines", MACHINES)
    }

    /// Returns the bundle of [`NBD`].
    ///
    /// # Errors
    /// Fails as [`Bundle::prepare`] does.
    pub(crate) fn nbd(&self) -> Result<&Bundle> {
        once(&self.nbd, "nbd", NBD)
    }

    /// Returns the bundle of [`PROMETHEUS`].
    ///
    /// # Errors
    /// Fails as [`Bundle::prepare`] does.
    pub(crate) fn prometheus(&self) -> Result<&Bundle> {
        once(&self.prometheus, "prometheus", PROMETHEUS)
    }

    /// Returns the bundle of [`TERMINAL`].
    ///
    /// # Errors
    /// Fails as [`Bundle::prepare`] does.
    pub(crate) fn terminal(&self) -> Result<&Bundle> {
        once(&self.terminal, "terminal", TERMINAL)
    }
}

/// Returns the bundle in `place`, which the first caller makes.
fn once<'a>(
    place: &'a std::sync::OnceLock<Bundle>,
    name: &str,
    packages: &[&str],
) -> Result<&'a Bundle> {
    if let Some(bundle) = place.get() {
        return Ok(bundle);
    }
    let bundle = Bundle::prepare(name, packages)?;
    Ok(place.get_or_init(|| bundle))
}

/// Returns the folder that survives between runs and clones.
///
/// It is `$XDG_CACHE_HOME/sandstone/conformance`. If `XDG_CACHE_HOME` is unset, `~/.cache` takes
/// its place, or else `.cache` of the repository.
///
/// # Errors
/// The folder cannot be made.
pub(crate) fn cache_folder() -> Result<PathBuf> {
    let of = |variable: &str| {
        std::env::var_os(variable)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = of("XDG_CACHE_HOME")
        .or_else(|| of("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache"));
    let folder = base.join("sandstone/conformance");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    Ok(folder)
}

/// Returns the program `name` in PATH or in the folders of system programs.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Builds a command of apt-get that sees a machine without any package. So the closure is complete,
/// and equal everywhere.
fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command
        .env("LC_ALL", "C")
        .env("DEBIAN_FRONTEND", "noninteractive");
    for option in [
        "Dir::State::status=/dev/null",
        "Debug::NoLocking=1",
        "APT::Install-Recommends=false",
        "APT::Sandbox::User=root",
        "Acquire::Retries=3",
    ] {
        command.args(["-o", option]);
    }
    command
}

/// Returns the names of the package files that `packages` need, sorted, one a line.
fn resolve(packages: &[&str]) -> Result<String> {
    if on_path("apt-get").is_none() || on_path("dpkg-deb").is_none() {
        bail!(
            "the labs take {} from Debian, and this machine has no apt-get",
            packages.join(", ")
        );
    }
    match list(packages) {
        Ok(names) => Ok(names),
        Err(first) => {
            update(&first)?;
            list(packages)
        }
    }
}

/// Brings apt's lists up to date after `failure`.
fn update(failure: &anyhow::Error) -> Result<()> {
    println!(
        "  updating apt's lists, because {}",
        format!("{failure:#}").lines().last().unwrap_or_default()
    );
    let mut update = Command::new("apt-get");
    update.args(["-q", "update"]).env("LC_ALL", "C");
    process::output(update, DOWNLOAD)
        .map(drop)
        .map_err(|error| anyhow!("{failure:#}\nand `apt-get update` (as root) failed: {error:#}"))
}

fn list(packages: &[&str]) -> Result<String> {
    let mut command = apt_get();
    command
        .args(["-y", "--print-uris", "install"])
        .args(packages);
    let text = process::output(command, DOWNLOAD)?;
    let mut names: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with('\''))
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    names.sort_unstable();
    Ok(names.join("\n"))
}

fn build(folder: &Path, packages: &[&str], contents: &str) -> Result<()> {
    println!(
        "  installing {} ({} packages) from Debian into {}",
        packages.join(" "),
        contents.lines().count(),
        folder.display()
    );
    let _ = fs::remove_dir_all(folder);
    let debs = folder.join("debs");
    fs::create_dir_all(debs.join("partial")).context("create the download folder")?;
    let mut command = apt_get();
    command
        .arg("-o")
        .arg(format!("Dir::Cache::archives={}", debs.display()))
        .args(["-q", "-y", "--download-only", "install"])
        .args(packages);
    process::output(command, DOWNLOAD)?;
    let root = folder.join("root");
    fs::create_dir_all(&root).context("create the package tree")?;
    let mut files: Vec<PathBuf> = fs::read_dir(&debs)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    files.sort();
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|suffix| suffix == "deb"))
    {
        unpack(file, &root)?;
    }
    merge_usr(&root)?;
    fs::remove_dir_all(&debs).context("remove the downloads")?;
    fs::write(folder.join("contents"), contents).context("note what the tree is made of")
}

fn unpack(deb: &Path, root: &Path) -> Result<()> {
    let mut reader = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(deb)
        .stdout(Stdio::piped())
        .spawn()
        .context("start dpkg-deb")?;
    let pipe = reader.stdout.take().context("dpkg-deb has no output")?;
    let status = Command::new("tar")
        .args(["-x", "--keep-directory-symlink", "--no-same-owner"])
        .args(["--exclude=./usr/share/doc*", "--exclude=./usr/share/man*"])
        .args([
            "--exclude=./usr/share/locale*",
            "--exclude=./usr/share/i18n*",
            "--exclude=*/gconv/*",
        ])
        .arg("-C")
        .arg(root)
        .stdin(pipe)
        .status()
        .context("start tar")?;
    if !reader.wait()?.success() || !status.success() {
        bail!("cannot unpack {}", deb.display());
    }
    Ok(())
}

/// Moves /bin, /lib and so on below /usr, as Debian's usrmerge does at installation.
fn merge_usr(root: &Path) -> Result<()> {
    for name in ["bin", "sbin", "lib", "lib64"] {
        let (from, to) = (root.join(name), root.join("usr").join(name));
        if from.is_symlink() {
            continue;
        }
        fs::create_dir_all(&to).context("merge /usr")?;
        if from.is_dir() {
            let status = Command::new("cp")
                .arg("-a")
                .arg(from.join("."))
                .arg(&to)
                .status()?;
            if !status.success() {
                bail!("cannot merge {} into {}", from.display(), to.display());
            }
            fs::remove_dir_all(&from)?;
        }
        std::os::unix::fs::symlink(Path::new("usr").join(name), &from)?;
    }
    Ok(())
}
