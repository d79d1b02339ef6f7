//! Labs of libiscsi's small tools: discovery, the list of units, inquiry and a short load.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::process;
use crate::servers::server::Spec;

const LIMIT: Duration = Duration::from_secs(30);

/// Labs of discovery and inquiry, and of a short load.
pub(crate) const LABS: &[Lab] = &[
    Lab {
        name: "libiscsi-tools",
        about: "iscsi-ls finds the target and its unit; iscsi-inq and iscsi-readcapacity16 read what it is",
        room: Room::Shared,
        run: tools,
    },
    Lab {
        name: "libiscsi-mutual-chap",
        about: "over IPv6, libiscsi and the target prove themselves to one another; with a wrong secret of either there is no login",
        room: Room::Shared,
        run: mutual_chap,
    },
    Lab {
        name: "libiscsi-perf",
        about: "iscsi-perf reads for a few seconds without an error",
        room: Room::Shared,
        run: perf,
    },
];

fn tools(bench: &Bench) -> Result<Outcome> {
    let mut server = bench.serve(Spec {
        size_mib: 64,
        block_size: 4096,
        ..Spec::default()
    })?;
    let ask = |name: &str, arguments: &[&str]| -> Result<String> {
        let mut command = bench.tools.client(name)?;
        command.args(arguments);
        process::output(command, LIMIT)
    };
    let found = ask(
        "iscsi-ls",
        &["--show-luns", &format!("iscsi://{}", server.portal(0))],
    )?;
    ensure!(
        found.contains(&format!("Target:{}", server.target)),
        "discovery did not name the target:\n{found}"
    );
    ensure!(
        found.contains(&server.portal(0)),
        "discovery did not name the portal:\n{found}"
    );
    let unit = format!("Lun:{}", server.lun);
    ensure!(
        found
            .lines()
            .any(|line| line.starts_with(&unit) && line.contains("DIRECT_ACCESS")),
        "no {unit} of type DIRECT_ACCESS:\n{found}"
    );
    let inquiry = ask("iscsi-inq", &[&server.url(0)])?;
    ensure!(
        inquiry.contains("Peripheral Device Type:DIRECT_ACCESS"),
        "not a disk:\n{inquiry}"
    );
    let mut pages = 0;
    for (page, must) in [
        ("0", "Page:0x83"),
        ("0x80", "Serial"),
        ("0x83", "NAA"),
        ("0xb0", "unmap"),
        ("0xb2", ""),
    ] {
        let text = ask(
            "iscsi-inq",
            &["--evpd", "1", "--pagecode", &number(page)?, &server.url(0)],
        )?;
        // Not every version of the peer makes an NAA by itself, so the pages must only be readable.
        if !bench.is_peer() {
            let (text, must) = (text.to_lowercase(), must.to_lowercase());
            ensure!(
                text.contains(&must),
                "VPD page {page} lacks '{must}':\n{text}"
            );
        }
        pages += 1;
    }
    let capacity = ask("iscsi-readcapacity16", &[&server.url(0)])?;
    let bytes = 64 << 20;
    ensure!(
        capacity.contains(&format!("{}", bytes / 4096 - 1)) && capacity.contains("4096"),
        "READ CAPACITY (16) does not say 64 MiB of 4096-byte blocks:\n{capacity}"
    );
    server.check_alive()?;
    Ok(Outcome::passed(format!(
        "1 target, 1 unit, {pages} VPD pages"
    )))
}

fn mutual_chap(bench: &Bench) -> Result<Outcome> {
    let (user, secret) = ("host-user", "a-secret-of-the-host");
    let (target_user, target_secret) = ("target-user", "a-secret-of-the-target");
    let pair = |user: &str, secret: &str| Some((user.to_owned(), secret.to_owned()));
    let mut server = bench.serve(Spec {
        size_mib: 32,
        addresses: vec!["[::1]".to_owned()],
        chap: pair(user, secret),
        mutual: pair(target_user, target_secret),
        ..Spec::default()
    })?;
    let inquire = |url: &str, (user, secret): (&str, &str)| {
        let mut command = bench.tools.client("iscsi-inq")?;
        command.arg(format!("{url}?target_user={user}&target_password={secret}"));
        process::finish(command, LIMIT)
    };
    let right = inquire(&server.url(0), (target_user, target_secret))?;
    ensure!(
        right.status.success() && right.stdout.contains("DIRECT_ACCESS"),
        "with both secrets: {}",
        right.tail()
    );
    let wrong_secret = server.url_as(user, "another-secret-of-it");
    for (what, url, target) in [
        (
            "a host's wrong secret",
            wrong_secret,
            (target_user, target_secret),
        ),
        (
            "a target's wrong secret",
            server.url(0),
            (target_user, "another-secret-of-it"),
        ),
        (
            "a target's wrong user",
            server.url(0),
            ("nobody", target_secret),
        ),
    ] {
        let refused = inquire(&url, target)?;
        ensure!(!refused.status.success(), "{what} led to a login at {url}");
    }
    let found = bench.tools.client("iscsi-ls").and_then(|mut command| {
        command.arg(format!("iscsi://{user}%{secret}@{}", server.portal(0)));
        process::output(command, LIMIT)
    })?;
    ensure!(
        found.contains(&server.target) && found.contains("[::1]"),
        "discovery over IPv6 names no target there:\n{found}"
    );
    server.check_alive()?;
    Ok(Outcome::passed(
        "both secrets in; the host's wrong one, the target's wrong one and its wrong user refused; discovery",
    ))
}

/// Returns a page code in decimal, as iscsi-inq wants it.
fn number(page: &str) -> Result<String> {
    let code = match page.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16)?,
        None => page.parse()?,
    };
    Ok(code.to_string())
}

fn perf(bench: &Bench) -> Result<Outcome> {
    const SECONDS: &str = "4";
    let mut server = bench.serve(Spec::default())?;
    let mut figures = Vec::new();
    for (what, blocks, order) in [
        ("4 KiB random", "8", Some("--random")),
        ("256 KiB sequential", "512", None),
    ] {
        let mut command = bench.tools.client("iscsi-perf")?;
        command
            .args(["-t", SECONDS, "-m", "32", "-b", blocks])
            .args(order)
            .arg(server.url(0));
        let finished = process::finish(command, LIMIT)?;
        let text = finished.stdout.replace('\r', "\n");
        ensure!(
            finished.status.success(),
            "iscsi-perf: {}\n{}",
            process::ended(finished.status),
            finished.tail()
        );
        let line = text
            .lines()
            .rfind(|line| line.contains("iops average"))
            .context("iscsi-perf gave no average")?;
        let iops = first_number(line).with_context(|| format!("no figure in '{line}'"))?;
        if iops == 0 {
            bail!("{what}: no read was finished");
        }
        figures.push(format!("{what} {iops} IOPS"));
    }
    server.check_alive()?;
    Ok(Outcome::passed(figures.join(", ")))
}

fn first_number(text: &str) -> Option<u64> {
    text.split(|letter: char| !letter.is_ascii_digit())
        .find(|word| !word.is_empty())?
        .parse()
        .ok()
}
