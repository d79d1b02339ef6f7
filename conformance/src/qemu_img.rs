//! Labs of qemu-img over `iscsi://`, which work on a unit as Proxmox and every virtual machine on
//! QEMU do.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::process;
use crate::servers::server::{Backend, Server, Spec};

const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const SIZE_MIB: u64 = 128;

/// Labs of whole images through qemu-img, and of CHAP.
pub(crate) const LABS: &[Lab] = &[
    Lab {
        name: "qemu-img-512",
        about: "qemu-img convert, compare, map, discard and bench, 512-byte blocks, file",
        room: Room::Shared,
        run: |bench| images(bench, 512),
    },
    Lab {
        name: "qemu-img-4k",
        about: "qemu-img convert, compare, map, discard and bench, 4 KiB blocks, file",
        room: Room::Shared,
        run: |bench| images(bench, 4096),
    },
    Lab {
        name: "qemu-img-chap",
        about: "qemu-img logs in with the right CHAP secret and is refused with a wrong one",
        room: Room::Shared,
        run: chap,
    },
];

fn images(bench: &Bench, block_size: u32) -> Result<Outcome> {
    let spec = Spec {
        backend: Backend::File,
        size_mib: SIZE_MIB,
        block_size,
        ..Spec::default()
    };
    let mut server = bench.serve(spec)?;
    let url = server.url(0);
    let source = server.folder().join("source.raw");
    let back = server.folder().join("back.raw");
    sparse_pattern(&source)?;
    let run =
        |arguments: &[&str]| -> Result<String> { process::output(tool(bench, arguments)?, LIMIT) };
    let (source_name, back_name) = (text(&source)?, text(&back)?);
    let info: serde_json::Value =
        serde_json::from_str(&run(&["info", "--output=json", "-f", "raw", &url])?)?;
    ensure!(
        info["virtual-size"].as_u64() == Some(SIZE_MIB << 20),
        "wrong size: {info}"
    );

    run(&["convert", "-n", "-f", "raw", "-O", "raw", source_name, &url])?;
    run(&["compare", "-f", "raw", "-F", "raw", source_name, &url])?;
    run(&["convert", "-f", "raw", "-O", "raw", &url, back_name])?;
    ensure!(
        fs::read(&source)? == fs::read(&back)?,
        "the image read back differs from the one written"
    );
    let (mapped, holes) = map(bench, &url)?;
    ensure!(
        mapped + holes == SIZE_MIB << 20,
        "qemu-img map covers {} of {} bytes",
        mapped + holes,
        SIZE_MIB << 20
    );
    if !bench.is_peer() {
        ensure!(
            holes >= 64 << 20,
            "the sparse half of the image has no holes in GET LBA STATUS ({holes} bytes)"
        );
    }

    let bench_write = [
        "bench", "-f", "raw", "-w", "-c", "2000", "-d", "16", "-s", "4096", "-t", "none", &url,
    ];
    run(&bench_write)?;
    run(&[
        "bench", "-f", "raw", "-c", "2000", "-d", "16", "-s", "65536", "-t", "none", &url,
    ])?;

    // An empty image written with discard allowed must leave zeros and give the space back.
    let before = server.allocated().context("the unit has no file")?;
    let empty = server.folder().join("empty.raw");
    File::create(&empty)?.set_len(SIZE_MIB << 20)?;
    run(&[
        "convert",
        "-n",
        "-t",
        "none",
        "-f",
        "raw",
        "-O",
        "raw",
        text(&empty)?,
        &url,
    ])?;
    run(&["compare", "-f", "raw", "-F", "raw", text(&empty)?, &url])?;
    discard_all(bench, &url)?;
    run(&["compare", "-f", "raw", "-F", "raw", text(&empty)?, &url])?;
    let after = server.allocated().context("the unit has no file")?;
    ensure!(
        after < before / 4,
        "discarding the whole unit left {after} of {before} bytes allocated"
    );
    server.check_alive()?;
    Ok(Outcome::passed(format!(
        "{SIZE_MIB} MiB there and back, {} MiB mapped, discard freed {} MiB",
        mapped >> 20,
        (before - after) >> 20
    )))
}

fn chap(bench: &Bench) -> Result<Outcome> {
    let (user, secret) = ("labuser", "a-long-secret-1");
    let chap = Some((user.to_owned(), secret.to_owned()));
    let mut server = bench.serve(Spec {
        size_mib: 32,
        chap,
        ..Spec::default()
    })?;
    process::output(tool(bench, &["info", "-f", "raw", &server.url(0)])?, LIMIT)
        .context("with the right secret")?;
    let refused = |server: &Server, url: &str, what: &str| -> Result<()> {
        let finished = process::finish(tool(bench, &["info", "-f", "raw", url])?, LIMIT)?;
        ensure!(
            !finished.status.success(),
            "{what} logged in to {}",
            server.target
        );
        Ok(())
    };
    refused(
        &server,
        &server.url_as(user, "another-secret-2"),
        "a wrong secret",
    )?;
    refused(&server, &server.url_as("nobody", secret), "a wrong user")?;
    let anonymous = format!(
        "iscsi://{}/{}/{}",
        server.portal(0),
        server.target,
        server.lun
    );
    refused(&server, &anonymous, "an initiator without credentials")?;
    process::output(tool(bench, &["info", "-f", "raw", &server.url(0)])?, LIMIT)
        .context("after the refusals")?;
    server.check_alive()?;
    Ok(Outcome::passed(
        "right secret in; wrong secret, wrong user and no user refused",
    ))
}

/// Writes two extents of data and leaves the rest a hole: 8 MiB at the start, 8 MiB at 96 MiB.
pub(crate) fn sparse_pattern(path: &Path) -> Result<()> {
    let mut file = File::create(path)?;
    file.set_len(SIZE_MIB << 20)?;
    let data = pattern(8 << 20);
    file.write_all(&data)?;
    file.write_all_at(&data, 96 << 20)?;
    Ok(())
}

/// Returns bytes that differ in every sector, so that a misplaced one is seen (xorshift64).
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Returns the bytes with data and the bytes without, by `qemu-img map`.
fn map(bench: &Bench, url: &str) -> Result<(u64, u64)> {
    let text = process::output(
        tool(bench, &["map", "--output=json", "-f", "raw", url])?,
        LIMIT,
    )?;
    let extents: Vec<serde_json::Value> = serde_json::from_str(&text).context("qemu-img map")?;
    let sum = |data: bool| {
        let chosen = extents
            .iter()
            .filter(|extent| extent["data"].as_bool() == Some(data));
        chosen.filter_map(|extent| extent["length"].as_u64()).sum()
    };
    Ok((sum(true), sum(false)))
}

fn discard_all(bench: &Bench, url: &str) -> Result<()> {
    let mut command = bench.tools.machines()?.command("qemu-io")?;
    command
        .args(["-f", "raw", "-d", "unmap", "-c"])
        .arg(format!("discard 0 {}M", SIZE_MIB))
        .arg(url);
    let text = process::output(command, LIMIT)?;
    ensure!(!text.contains("failed"), "qemu-io discard: {text}");
    Ok(())
}

/// Builds a command of qemu-img with its iSCSI driver.
pub(crate) fn tool(bench: &Bench, arguments: &[&str]) -> Result<Command> {
    let mut command = bench.tools.machines()?.command("qemu-img")?;
    command.args(arguments);
    Ok(command)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}
