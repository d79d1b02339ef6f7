//! Labs of `sandstone initiator attach` with NBD clients of other projects: libnbd's tools, QEMU,
//! fio.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::process::{self, Running};
use crate::qemu_img::{SIZE_MIB, pattern, sparse_pattern, tool};
use crate::servers::server::{self, ServerKind};

const LIMIT: Duration = Duration::from_secs(90);
const START: Duration = Duration::from_secs(20);

/// Labs of each backend and block size, and of TLS.
pub(crate) const LABS: &[Lab] = &[
    Lab {
        name: "nbd-memory-512",
        about: "nbdinfo, nbdcopy, qemu-img and fio over NBD, 512-byte blocks, memory",
        room: Room::Shared,
        run: |bench| images(bench, 512, false),
    },
    Lab {
        name: "nbd-file-4k",
        about: "nbdinfo, nbdcopy, qemu-img and fio over NBD, 4 KiB blocks, sparse file, two loops",
        room: Room::Shared,
        run: |bench| images(bench, 4096, true),
    },
    Lab {
        name: "nbd-tls",
        about: "nbdcopy and qemu-img over TLS with certificates both ways; others stay outside",
        room: Room::Shared,
        run: tls,
    },
];

/// Running `initiator attach`.
pub(crate) struct Attached {
    process: Running,
    socket: PathBuf,
    /// URI for clients of NBD.
    pub(crate) uri: String,
    folder: tempfile::TempDir,
}

impl Attached {
    /// Starts `initiator attach`, or returns `None` if the server under test is not Sandstone.
    pub(crate) fn start(
        bench: &Bench,
        folder: tempfile::TempDir,
        what: &str,
        options: &[&str],
    ) -> Result<Option<Self>> {
        let ServerKind::Sandstone(program) = &bench.kind else {
            return Ok(None);
        };
        let socket = folder.path().join("nbd.sock");
        let mut command = Command::new(program);
        command
            .args(["initiator", "attach", what, "--json", "--socket"])
            .arg(&socket)
            .args(options);
        let log = server::log_file(folder.path());
        let process = process::start_logged(command, &log)?;
        let read = || fs::read_to_string(&log).unwrap_or_default();
        process::until("`initiator attach` serves", START, || {
            read().lines().any(|line| line.starts_with('{'))
        })
        .with_context(read)?;
        let text = read();
        let line = text.lines().find(|line| line.starts_with('{'));
        let report: serde_json::Value = serde_json::from_str(line.context("no JSON line")?)?;
        let uri = report["uri"].as_str().context("no URI")?.to_owned();
        Ok(Some(Self {
            process,
            socket,
            uri,
            folder,
        }))
    }

    /// Returns a path in the folder of the process.
    pub(crate) fn path(&self, name: &str) -> Result<String> {
        text(&self.folder.path().join(name))
    }

    /// Ends the process as Ctrl-C does.
    pub(crate) fn end(mut self) -> Result<()> {
        ensure!(
            self.process.terminate(Duration::from_secs(15)),
            "it did not end within 15 s"
        );
        ensure!(!self.socket.exists(), "its socket is still there");
        Ok(())
    }
}

fn images(bench: &Bench, block_size: u32, file: bool) -> Result<Outcome> {
    let folder = crate::machine::scratch::folder("nbd")?;
    let disk = folder.path().join("disk.img");
    let what = if file {
        fs::File::create(&disk)?.set_len(SIZE_MIB << 20)?;
        text(&disk)?
    } else {
        format!("memory:{SIZE_MIB}M")
    };
    let block = block_size.to_string();
    let threads = if file { "2" } else { "1" };
    let options = ["--block-size", &block, "--threads", threads];
    let Some(server) = Attached::start(bench, folder, &what, &options)? else {
        return Ok(Outcome::Skipped("the peer offers no NBD".into()));
    };
    let uri = server.uri.as_str();
    described(bench, uri, u64::from(block_size))?;
    let (source, back) = (server.path("source.raw")?, server.path("back.raw")?);
    sparse_pattern(Path::new(&source))?;
    run(bench, "nbdcopy", &[&source, uri])?;
    same(bench, &source, uri)?;
    run(bench, "nbdcopy", &[uri, &back])?;
    ensure!(
        fs::read(&source)? == fs::read(&back)?,
        "the image read back differs from the one written"
    );
    let holes = holes(bench, uri)?;
    ensure!(holes >= 96 << 20, "only {holes} bytes of holes are told");
    qemu(bench, &server, &source)?;
    let options = ["--iodepth=32", "--size=32M", "--fsync=256"];
    let writes = fio(bench, uri, &server.path("")?, &options)?;
    ensure!(writes > 1000, "fio wrote {writes} blocks");
    if file {
        use std::os::unix::fs::MetadataExt as _;
        discard(bench, uri)?;
        let left = fs::metadata(&disk)?.blocks() * 512;
        ensure!(left < 1 << 20, "discarding all left {left} bytes allocated");
    }
    server.end()?;
    Ok(Outcome::passed(format!(
        "{SIZE_MIB} MiB there and back by nbdcopy and qemu-img, {} MiB of holes told, fio verified {writes} writes",
        holes >> 20
    )))
}

/// Checks the export as nbdinfo describes it.
fn described(bench: &Bench, uri: &str, block_size: u64) -> Result<()> {
    let told = run(bench, "nbdinfo", &["--json", uri])?;
    let told: serde_json::Value = serde_json::from_str(&told).context("nbdinfo")?;
    let export = &told["exports"][0];
    ensure!(told["structured"] == true, "no structured replies: {told}");
    ensure!(export["export-size"] == SIZE_MIB << 20, "the size: {told}");
    ensure!(
        export["block_size_minimum"] == block_size,
        "the minimum block: {told}"
    );
    ensure!(export["contexts"][0] == "base:allocation", "{told}");
    for ability in [
        "can_cache",
        "can_df",
        "can_fast_zero",
        "can_flush",
        "can_fua",
        "can_multi_conn",
        "can_trim",
        "can_zero",
    ] {
        ensure!(export[ability] == true, "{ability}: {told}");
    }
    Ok(())
}

/// Runs QEMU's client, which speaks extended headers: images there and back, and caches flushed
/// under load.
fn qemu(bench: &Bench, server: &Attached, source: &str) -> Result<()> {
    let uri = server.uri.as_str();
    let back = server.path("qemu.raw")?;
    let image = |arguments: &[&str]| process::output(tool(bench, arguments)?, LIMIT);
    let load = ["bench", "-f", "raw", "-t", "none", "-c", "4000", "-d", "32"];
    image(
        &[
            &load[..],
            &["-w", "-s", "4096", "--flush-interval", "64", uri],
        ]
        .concat(),
    )?;
    image(&[&load[..], &["-s", "65536", uri]].concat())?;
    discard(bench, uri)?;
    let raw = ["-f", "raw", "-O", "raw"];
    image(&[&["convert", "-n"][..], &raw, &[source, uri]].concat())?;
    same(bench, source, uri)?;
    image(&[&["convert"][..], &raw, &[uri, &back]].concat())?;
    ensure!(
        fs::read(source)? == fs::read(&back)?,
        "the image that QEMU read back differs from the one it wrote"
    );
    Ok(())
}

fn same(bench: &Bench, source: &str, uri: &str) -> Result<()> {
    let arguments = ["compare", "-f", "raw", "-F", "raw", source, uri];
    process::output(tool(bench, &arguments)?, LIMIT).map(drop)
}

fn discard(bench: &Bench, uri: &str) -> Result<()> {
    let mut command = bench.tools.machines()?.command("qemu-io")?;
    command
        .args(["-f", "raw", "-d", "unmap", "-c"])
        .arg(format!("discard 0 {SIZE_MIB}M"))
        .arg(uri);
    let text = process::output(command, LIMIT)?;
    ensure!(!text.contains("failed"), "qemu-io discard: {text}");
    Ok(())
}

/// Returns the bytes of holes, by nbdinfo.
fn holes(bench: &Bench, uri: &str) -> Result<u64> {
    let told = run(bench, "nbdinfo", &["--map", "--json", uri])?;
    let told: Vec<serde_json::Value> = serde_json::from_str(&told).context("nbdinfo --map")?;
    let length = |extent: &serde_json::Value| extent["length"].as_u64().unwrap_or(0);
    let all: u64 = told.iter().map(length).sum();
    ensure!(all == SIZE_MIB << 20, "the map covers {all} bytes");
    let holes = told.iter().filter(|extent| extent["type"] == 3);
    Ok(holes.map(length).sum())
}

/// Runs fio's random writes and reads in `folder`, each block with its checksum, with these extra
/// options. Returns the number of writes.
pub(crate) fn fio(bench: &Bench, uri: &str, folder: &str, options: &[&str]) -> Result<u64> {
    let uri = format!("--uri={uri}");
    let mut command = bench.tools.nbd()?.command("fio")?;
    command
        .current_dir(folder)
        .args([
            "--name=nbd",
            "--ioengine=nbd",
            &uri,
            "--rw=randrw",
            "--bs=4k",
        ])
        .args(["--verify=crc32c", "--output-format=json"])
        .args(options);
    let text = process::output(command, LIMIT)?;
    // Notes may stand before the JSON.
    let json = text.find('{').map_or("", |start| &text[start..]);
    let told: serde_json::Value = serde_json::from_str(json).context("fio")?;
    let job = &told["jobs"][0];
    ensure!(job["error"] == 0, "fio: {job}");
    Ok(job["write"]["total_ios"].as_u64().unwrap_or(0))
}

fn tls(bench: &Bench) -> Result<Outcome> {
    let folder = crate::machine::scratch::folder("nbd")?;
    let pki = folder.path().join("pki");
    let strangers = folder.path().join("strangers");
    for (place, names) in [(&pki, &["server", "client"][..]), (&strangers, &["client"])] {
        certificates(bench, place, names)?;
    }
    // The stranger trusts the server, but the server must not trust the stranger.
    fs::copy(pki.join("ca-cert.pem"), strangers.join("ca-cert.pem"))?;
    let what = format!("memory:{SIZE_MIB}M");
    let (pki, strangers) = (text(&pki)?, text(&strangers)?);
    let options = ["--tls-certificates", &pki, "--tls-verify-clients"];
    let Some(server) = Attached::start(bench, folder, &what, &options)? else {
        return Ok(Outcome::Skipped("the peer offers no NBD".into()));
    };
    let socket = text(&server.socket)?;
    let (source, back) = (server.path("source.raw")?, server.path("back.raw")?);
    fs::write(&source, pattern((SIZE_MIB as usize) << 20))?;
    let uri = format!("nbds+unix:///?socket={socket}&tls-certificates={pki}");
    run(bench, "nbdcopy", &[&source, &uri])?;
    run(bench, "nbdcopy", &[&uri, &back])?;
    ensure!(
        fs::read(&source)? == fs::read(&back)?,
        "the image read back over TLS differs from the one written"
    );
    let mut command = tool(bench, &["compare"])?;
    command
        .arg("--object")
        .arg(format!("tls-creds-x509,id=tls0,endpoint=client,dir={pki}"))
        .args(["--image-opts", &format!("driver=file,filename={source}")])
        .arg(format!(
            "driver=nbd,server.type=unix,server.path={socket},tls-creds=tls0,tls-hostname=localhost"
        ));
    process::output(command, LIMIT).context("qemu-img compare over TLS")?;
    let outside = [
        ("plain", format!("nbd+unix:///?socket={socket}")),
        (
            "a stranger's certificate",
            format!("nbds+unix:///?socket={socket}&tls-certificates={strangers}"),
        ),
    ];
    for (who, uri) in outside {
        let mut command = bench.tools.nbd()?.command("nbdinfo")?;
        command.args(["--size", &uri]);
        let finished = process::finish(command, LIMIT)?;
        ensure!(!finished.status.success(), "{who} was let in");
    }
    server.end()?;
    Ok(Outcome::passed(format!(
        "{SIZE_MIB} MiB there and back over TLS; plain and strangers refused"
    )))
}

/// Makes an authority, and a certificate for each of `names`, with file names as the tools of NBD
/// expect.
fn certificates(bench: &Bench, folder: &Path, names: &[&str]) -> Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(
        folder.join("openssl.cnf"),
        "[req]\ndistinguished_name=dn\n[dn]\n",
    )?;
    fs::write(
        folder.join("authority.ext"),
        "basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign\n",
    )?;
    fs::write(
        folder.join("peer.ext"),
        "subjectAltName=DNS:localhost\nkeyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n",
    )?;
    let openssl = |line: &str| -> Result<()> {
        let mut command = bench.tools.nbd()?.command("openssl")?;
        command
            .current_dir(folder)
            .env("OPENSSL_CONF", folder.join("openssl.cnf"))
            .args(line.split(' '));
        process::output(command, LIMIT).map(drop)
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    let signed = "-days 2 -in request.pem";
    openssl(&format!(
        "req {key} -keyout ca-key.pem -out request.pem -subj /CN=lab"
    ))?;
    openssl(&format!(
        "x509 -req {signed} -signkey ca-key.pem -extfile authority.ext -out ca-cert.pem"
    ))?;
    for name in names {
        openssl(&format!(
            "req {key} -keyout {name}-key.pem -out request.pem -subj /CN=localhost"
        ))?;
        openssl(&format!(
            "x509 -req {signed} -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -extfile peer.ext -out {name}-cert.pem"
        ))?;
    }
    Ok(())
}

/// Runs a tool of libnbd.
fn run(bench: &Bench, name: &str, arguments: &[&str]) -> Result<String> {
    let mut command = bench.tools.nbd()?.command(name)?;
    command.args(arguments);
    process::output(command, LIMIT)
}

fn text(path: &Path) -> Result<String> {
    Ok(path
        .to_str()
        .context("a path that is not UTF-8")?
        .to_owned())
}
