//! Lab of Debian's nbdkit in front of `sandstone initiator attach`. Its `nbd` plugin is our client,
//! and the work of its filters on our unit must hold while paths die.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::initiator::{attached, nbd, no_initiator, same, serve, two_paths, while_paths_die};
use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::process::{self, Running};
use crate::nbd::{Attached, fio};
use crate::qemu_img::{SIZE_MIB, pattern, sparse_pattern};
use crate::servers::server::{Backend, Spec};

const START: Duration = Duration::from_secs(20);
const SECTOR: u64 = 512;
/// Start and length of the disk's one partition, in sectors.
const PARTITION: (u64, u64) = (2048, (96 << 20) / SECTOR);

/// Lab of nbdkit over two paths.
pub(crate) const LABS: &[Lab] = &[Lab {
    name: "initiator-nbdkit",
    about: "nbdkit's nbd plugin over initiator attach, plain, a partition of it, and copy on write, while paths die",
    room: Room::Shared,
    run: filters,
}];

/// Running nbdkit.
struct Nbdkit {
    process: Running,
    /// URI for clients of NBD.
    uri: String,
}

impl Nbdkit {
    /// Starts nbdkit in front of the attached unit, with filters by their names, the outermost
    /// first.
    fn start(bench: &Bench, attached: &Attached, filters: &[&str]) -> Result<Self> {
        let bundle = bench.tools.nbd()?;
        let modules = bundle.modules("nbdkit");
        let name = format!("nbdkit-{}", filters.join("-"));
        let socket = attached.path(&format!("{name}.sock"))?;
        let (ready, log) = (attached.path(&name)?, attached.path("nbdkit.log")?);
        let mut command = bundle.command("nbdkit")?;
        command
            .args(["--foreground", "--unix", &socket, "--pidfile", &ready])
            // The copy-on-write filter keeps its data there.
            .env("TMPDIR", attached.path("")?);
        for filter in filters {
            let file = format!("filters/nbdkit-{filter}-filter.so");
            command.arg("--filter").arg(modules.join(file));
        }
        command
            .arg(modules.join("plugins/nbdkit-nbd-plugin.so"))
            .arg(format!("uri={}", attached.uri));
        if filters.contains(&"partition") {
            command.arg("partition=1");
        }
        let process = process::start_logged(command, Path::new(&log))?;
        process::until("nbdkit serves", START, || Path::new(&ready).exists())
            .with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
        Ok(Self {
            process,
            uri: format!("nbd+unix:///?socket={socket}"),
        })
    }

    /// Ends nbdkit, so that all data it was given has left it.
    fn end(mut self) -> Result<()> {
        let ended = self.process.terminate(Duration::from_secs(15));
        ensure!(ended, "nbdkit did not end within 15 s");
        Ok(())
    }
}

fn filters(bench: &Bench) -> Result<Outcome> {
    if let Some(skipped) = no_initiator(bench) {
        return Ok(skipped);
    }
    let spec = Spec {
        backend: Backend::File,
        size_mib: SIZE_MIB,
        ..Spec::default()
    };
    let mut server = serve(bench, false, spec)?;
    let (paths, url) = two_paths(&server, false)?;
    let attached = attached(bench, &url)?;
    let mut failures = 0;
    let (disk, back) = (attached.path("disk.raw")?, attached.path("back.raw")?);
    sparse_pattern(Path::new(&disk))?;
    write_partition_table(&disk)?;

    let nbdkit = Nbdkit::start(bench, &attached, &[])?;
    while_paths_die(&paths, &mut failures, || {
        described(bench, &nbdkit.uri, SIZE_MIB << 20)?;
        nbd(bench, "nbdcopy", &[&disk, &nbdkit.uri])?;
        nbd(bench, "nbdcopy", &[&nbdkit.uri, &back])?;
        same(&disk, &back).context("through nbdkit alone")
    })?;
    nbdkit.end()?;

    let part = attached.path("part.raw")?;
    let bytes = pattern((PARTITION.1 * SECTOR) as usize);
    fs::write(&part, &bytes)?;
    File::options()
        .write(true)
        .open(&disk)?
        .write_all_at(&bytes, PARTITION.0 * SECTOR)?;
    let nbdkit = Nbdkit::start(bench, &attached, &["partition"])?;
    while_paths_die(&paths, &mut failures, || {
        described(bench, &nbdkit.uri, PARTITION.1 * SECTOR)?;
        nbd(bench, "nbdcopy", &[&part, &nbdkit.uri])?;
        nbd(bench, "nbdcopy", &[&nbdkit.uri, &back])?;
        same(&part, &back).context("a partition of it")
    })?;
    nbdkit.end()?;
    let whole = |what: &'static str| -> Result<()> {
        nbd(bench, "nbdcopy", &[&attached.uri, &back])?;
        same(&disk, &back).context(what)
    };
    whole("the disk around the partition")?;

    let nbdkit = Nbdkit::start(bench, &attached, &["cow", "partition"])?;
    let folder = attached.path("")?;
    let options = ["--iodepth=16", "--size=64M", "--verify_backlog=256"];
    let timed = ["--time_based", "--runtime=4"];
    let options = [&options[..], &timed].concat();
    let writes = while_paths_die(&paths, &mut failures, || {
        fio(bench, &nbdkit.uri, &folder, &options)
    })?;
    nbdkit.end()?;
    ensure!(writes > 100, "fio wrote {writes} blocks");
    whole("the disk beneath copy on write")?;
    for path in &paths {
        ensure!(path.bytes() > 1 << 20, "a path was not used");
    }
    server.check_alive()?;
    attached.end()?;
    Ok(Outcome::passed(format!(
        "{SIZE_MIB} MiB and a partition of {} MiB there and back, {writes} writes on copy on write left nothing on \
         the unit, while paths died {failures} times",
        (PARTITION.1 * SECTOR) >> 20
    )))
}

/// Checks the export as nbdkit describes it to a client: the size, and that our flush, FUA, trim
/// and zeroes come through.
fn described(bench: &Bench, uri: &str, size: u64) -> Result<()> {
    let told = nbd(bench, "nbdinfo", &["--json", uri])?;
    let told: serde_json::Value = serde_json::from_str(&told).context("nbdinfo")?;
    let export = &told["exports"][0];
    ensure!(export["export-size"] == size, "the size: {told}");
    for ability in ["can_flush", "can_fua", "can_trim", "can_zero"] {
        ensure!(export[ability] == true, "{ability}: {told}");
    }
    Ok(())
}

/// Writes a master boot record with one partition of type Linux.
fn write_partition_table(disk: &str) -> Result<()> {
    let mut sector = [0; SECTOR as usize];
    let entry = &mut sector[446..462];
    entry[4] = 0x83;
    entry[8..12].copy_from_slice(&(PARTITION.0 as u32).to_le_bytes());
    entry[12..16].copy_from_slice(&(PARTITION.1 as u32).to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    let file = File::options().write(true).open(disk)?;
    file.write_all_at(&sector, 0)?;
    Ok(())
}
