//! Labs of our initiator against our daemon and against Debian's tgt. They cover login with digests
//! and CHAP, images there and back, and paths and targets that fail while everything is verified.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::process;
use crate::nbd::{Attached, fio};
use crate::qemu_img::{SIZE_MIB, sparse_pattern, tool};
use crate::servers::path_proxy::{PathProxy, Weather};
use crate::servers::server::{Backend, Server, ServerKind, Spec};

const LIMIT: Duration = Duration::from_secs(120);
const SEED: &str = "SANDSTONE_SEED";

/// Labs of each kind of login, and of the storms.
pub(crate) const LABS: &[Lab] = &[
    Lab {
        name: "initiator-logins",
        about: "our initiator logs in to our daemon: plain, digests, CHAP one way and both; nbdcopy compares",
        room: Room::Shared,
        run: |bench| logins(bench, false),
    },
    Lab {
        name: "initiator-logins-tgt",
        about: "our initiator logs in to tgt: plain, digests, CHAP one way and both; nbdcopy compares",
        room: Room::Shared,
        run: |bench| logins(bench, true),
    },
    Lab {
        name: "initiator-attach",
        about: "fio, nbdcopy and qemu-img over initiator attach on two paths that die in turn, our daemon",
        room: Room::Shared,
        run: |bench| attach(bench, false),
    },
    Lab {
        name: "initiator-attach-tgt",
        about: "fio, nbdcopy and qemu-img over initiator attach on two paths that die in turn, tgt",
        room: Room::Shared,
        run: |bench| attach(bench, true),
    },
    Lab {
        name: "initiator-storm",
        about: "bench run --verify while paths are cut, silent, restored and our daemon is restarted at random",
        room: Room::Shared,
        run: |bench| storm(bench, false),
    },
    Lab {
        name: "initiator-storm-tgt",
        about: "bench run --verify while paths are cut, silent, restored and tgt is restarted at random",
        room: Room::Shared,
        run: |bench| storm(bench, true),
    },
];

/// Starts a server of the kind under test.
pub(crate) fn serve(bench: &Bench, tgt: bool, spec: Spec) -> Result<Server> {
    match tgt {
        true => Server::start(&ServerKind::Tgt, &bench.tools, spec),
        false => bench.serve(spec),
    }
}

/// Returns the reason why a lab of the initiator cannot run, if the peer is under test.
pub(crate) fn no_initiator(bench: &Bench) -> Option<Outcome> {
    let why = "the peer is no initiator";
    bench.is_peer().then(|| Outcome::Skipped(why.to_owned()))
}

fn logins(bench: &Bench, tgt: bool) -> Result<Outcome> {
    if let Some(skipped) = no_initiator(bench) {
        return Ok(skipped);
    }
    let secret = |user: &str| Some((user.to_owned(), format!("{user}-0123456789")));
    let digests = "?header_digest=crc32c&data_digest=crc32c";
    let mutual = "?target_user=target&target_password=target-0123456789";
    let cases = [
        (
            "plain",
            None,
            None,
            "?max_outstanding_r2t=1&immediate_data=no",
        ),
        ("digests", None, None, digests),
        ("CHAP", secret("host"), None, ""),
        ("mutual CHAP", secret("host"), secret("target"), mutual),
    ];
    for (case, chap, mutual, options) in cases {
        let spec = Spec {
            backend: Backend::File,
            size_mib: SIZE_MIB,
            chap: chap.clone(),
            mutual: mutual.clone(),
            ..Spec::default()
        };
        let mut server = serve(bench, tgt, spec)?;
        let url = format!("{}{options}", server.url(0));
        there_and_back(bench, &url).with_context(|| format!("{case}\n{}", server.log()))?;
        if chap.is_some() {
            let url = server.url_as("host", "wrong-0123456789");
            refused(bench, &url, "refused the login")?;
        }
        if mutual.is_some() {
            let options = options.replace("target-0", "wrong-0");
            let url = format!("{}{options}", server.url(0));
            refused(bench, &url, "authentication failed")?;
        }
        server.check_alive()?;
    }
    Ok(Outcome::passed(format!(
        "{SIZE_MIB} MiB there and back after each login: plain, digests, CHAP, mutual CHAP; wrong secrets refused"
    )))
}

/// Runs `initiator attach` on this unit.
pub(crate) fn attached(bench: &Bench, url: &str) -> Result<Attached> {
    let folder = crate::machine::scratch::folder("initiator")?;
    Attached::start(bench, folder, url, &[])?.context("this program has no initiator")
}

/// Writes an image, reads it back, and throws the whole away.
fn there_and_back(bench: &Bench, url: &str) -> Result<()> {
    let attached = attached(bench, url)?;
    let uri = attached.uri.as_str();
    let (source, back) = (attached.path("source.raw")?, attached.path("back.raw")?);
    sparse_pattern(Path::new(&source))?;
    nbd(bench, "nbdcopy", &[&source, uri])?;
    nbd(bench, "nbdcopy", &[uri, &back])?;
    same(&source, &back)?;
    let told: serde_json::Value =
        serde_json::from_str(&nbd(bench, "nbdinfo", &["--json", uri])?).context("nbdinfo")?;
    let export = &told["exports"][0];
    ensure!(export["export-size"] == SIZE_MIB << 20, "the size: {told}");
    ensure!(export["block_size_minimum"] == 512, "the block: {told}");
    // Zeros are written by a command that the target knows, or by plain writes.
    let zeroed = process::output(
        {
            let mut command = bench.tools.machines()?.command("qemu-io")?;
            command.args([
                "-f",
                "raw",
                "-c",
                "write -z 1M 5M",
                "-c",
                "read -P 0 1M 5M",
                uri,
            ]);
            command
        },
        LIMIT,
    )?;
    let is_wrong = zeroed.contains("failed") || zeroed.contains("Pattern");
    ensure!(!is_wrong, "zeros: {zeroed}");
    attached.end()
}

fn refused(bench: &Bench, url: &str, why: &str) -> Result<()> {
    let ServerKind::Sandstone(program) = &bench.kind else {
        bail!("no initiator");
    };
    let mut command = Command::new(program);
    let folder = crate::machine::scratch::folder("initiator")?;
    command.args(["initiator", "attach", url, "--socket"]);
    command.arg(folder.path().join("nbd.sock"));
    let finished = process::finish(command, LIMIT)?;
    ensure!(!finished.status.success(), "a wrong secret was taken");
    let said = finished.tail();
    ensure!(said.contains(why), "not explained: {said}");
    Ok(())
}

/// Runs a tool of libnbd.
pub(crate) fn nbd(bench: &Bench, program: &str, arguments: &[&str]) -> Result<String> {
    let mut command = bench.tools.nbd()?.command(program)?;
    command.args(arguments);
    process::output(command, LIMIT)
}

/// Fails unless two files hold equal bytes.
pub(crate) fn same(one: &str, other: &str) -> Result<()> {
    ensure!(
        fs::read(one)? == fs::read(other)?,
        "the image read back differs from the one written"
    );
    Ok(())
}

/// Makes two paths to one server, and a URL over both that changes path after each I/O.
///
/// Data held back by a silent path arrives late. If no LOGIN could end its session meanwhile, a
/// fence that only times out lets the data land over newer data (seen with tgt). So here only the
/// end of the session counts. Also, tgt reports a session as over while threads of it are still
/// writing. For tgt our initiator waits after that report by itself. Here it is told to wait,
/// because the lab's tgt names another vendor.
pub(crate) fn two_paths(server: &Server, tgt: bool) -> Result<([PathProxy; 2], String)> {
    let paths = [
        PathProxy::start(server.portal(0))?,
        PathProxy::start(server.portal(0))?,
    ];
    let settle = if tgt { "&fence_settle=5000" } else { "" };
    let url = format!(
        "iscsi://{}/{}/{}?portal={}&psp=rr&iops=1&fence_timeout=never{settle}",
        paths[0].address, server.target, server.lun, paths[1].address
    );
    Ok((paths, url))
}

fn attach(bench: &Bench, tgt: bool) -> Result<Outcome> {
    if let Some(skipped) = no_initiator(bench) {
        return Ok(skipped);
    }
    let spec = Spec {
        backend: Backend::File,
        size_mib: SIZE_MIB,
        ..Spec::default()
    };
    let mut server = serve(bench, tgt, spec)?;
    let (paths, url) = two_paths(&server, tgt)?;
    let attached = attached(bench, &url)?;
    let uri = attached.uri.clone();
    let (source, back) = (attached.path("source.raw")?, attached.path("back.raw")?);
    sparse_pattern(Path::new(&source))?;
    let folder = attached.path("")?;
    let mut failures = 0;
    let options = [
        "--iodepth=16",
        "--size=64M",
        "--fsync=512",
        "--time_based",
        "--runtime=8",
        "--verify_backlog=256",
    ];
    let writes = while_paths_die(&paths, &mut failures, || {
        fio(bench, &uri, &folder, &options)
    })?;
    ensure!(writes > 100, "fio wrote {writes} blocks");
    while_paths_die(&paths, &mut failures, || {
        nbd(bench, "nbdcopy", &[&source, &uri])?;
        nbd(bench, "nbdcopy", &[&uri, &back])?;
        same(&source, &back)?;
        let compare = ["compare", "-f", "raw", "-F", "raw", &source, &uri];
        process::output(tool(bench, &compare)?, LIMIT).map(drop)
    })?;
    for path in &paths {
        ensure!(path.bytes() > 1 << 20, "a path was not used");
    }
    server.check_alive()?;
    attached.end()?;
    Ok(Outcome::passed(format!(
        "fio verified {writes} writes and {SIZE_MIB} MiB were there and back while paths died {failures} times"
    )))
}

/// Does `work` while one path after the other dies and comes back.
pub(crate) fn while_paths_die<T: Send>(
    paths: &[PathProxy; 2],
    failures: &mut u32,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        let deaths = [Weather::Cut, Weather::Silent];
        while !worker.is_finished() {
            let path = &paths[*failures as usize % 2];
            path.set(deaths[*failures as usize / 2 % 2]);
            std::thread::sleep(Duration::from_millis(700));
            path.set(Weather::Fair);
            std::thread::sleep(Duration::from_millis(800));
            *failures += 1;
        }
        match worker.join() {
            Ok(result) => result,
            Err(_) => bail!("the work panicked"),
        }
    })
}

/// Random numbers that a seed repeats (xorshift64*).
struct Random(u64);

impl Random {
    /// Returns the seed from the environment, or else a new one each time.
    fn seed() -> Result<u64> {
        match std::env::var(SEED) {
            Ok(seed) => seed.parse().with_context(|| format!("{SEED} is a number")),
            Err(_) => {
                let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
                Ok(now.as_nanos() as u64 % 1_000_000_000)
            }
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
}

fn storm(bench: &Bench, tgt: bool) -> Result<Outcome> {
    let ServerKind::Sandstone(program) = &bench.kind else {
        return Ok(Outcome::Skipped("the peer is no initiator".into()));
    };
    let seed = Random::seed()?;
    println!("   the storm's seed: {SEED}={seed}");
    let spec = Spec {
        backend: Backend::File,
        size_mib: SIZE_MIB,
        ..Spec::default()
    };
    let mut server = serve(bench, tgt, spec)?;
    let (paths, url) = two_paths(&server, tgt)?;
    let (seconds, number) = (format!("{}s", bench.seconds), seed.to_string());
    let mut command = Command::new(program);
    command.args(["bench", "run", &url, "--destroy-data", "--verify", "--json"]);
    command.args(["--block", "4096", "--reads", "40", "--random", "100"]);
    command.args(["--outstanding", "32", "--workers", "1", "--ramp-up", "0"]);
    command.args(["--time", &seconds, "--seed", &number]);
    let limit = LIMIT + Duration::from_secs(2 * bench.seconds);
    let mut weather = Forecast::default();
    let finished = std::thread::scope(|scope| {
        let run = scope.spawn(move || process::finish(command, limit));
        let is_busy = || paths.iter().all(|path| path.bytes() > 1 << 20);
        process::until("both paths are used", LIMIT, || {
            run.is_finished() || is_busy()
        })?;
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let until = Instant::now() + Duration::from_secs(bench.seconds);
        while !run.is_finished() && Instant::now() < until {
            weather.next(&mut random, &paths, &mut server, bench)?;
        }
        paths.iter().for_each(|path| path.set(Weather::Fair));
        run.join()
            .map_err(|_| anyhow::anyhow!("the run panicked"))?
    })
    .with_context(|| format!("{SEED}={seed}\n{}", server.log()))?;
    let verified = verified(&finished).with_context(|| format!("{SEED}={seed}, {weather}"))?;
    Ok(Outcome::passed(format!(
        "{verified}, in {weather}; seed {seed}"
    )))
}

/// Figures of a run of `bench run --verify --json` in which nothing was wrong.
#[derive(Debug)]
pub(crate) struct Verified {
    written: u64,
    checked: u64,
    /// Longest time between two accesses that ended.
    gap_ms: u64,
}

impl std::fmt::Display for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            written,
            checked,
            gap_ms,
        } = self;
        write!(
            f,
            "{written} blocks written, {checked} checked, none wrong or failed; longest gap {gap_ms} ms"
        )
    }
}

/// Returns the figures of a finished run.
///
/// # Errors
/// Data was wrong or not proven, an access failed, or the run did too little to prove anything.
pub(crate) fn verified(finished: &process::Finished) -> Result<Verified> {
    // Wrong data fails the run as well, so it is reported before the failure of the run.
    let results: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap_or_default();
    let measured = &results["runs"][0]["measurement"];
    let (verify, failures) = (&measured["verify"], &measured["failures"]);
    let said = process::last_lines(&finished.stderr, 12);
    ensure!(verify["mismatches"] == 0, "{said}: {verify}");
    let none = failures.as_array().is_none_or(Vec::is_empty);
    ensure!(none, "{said}: {failures}");
    ensure!(finished.status.success(), "{said}");
    let figure = |of: &serde_json::Value| of.as_u64().unwrap_or(0);
    let checked = figure(&verify["checked"]);
    ensure!(checked > 1000, "{said}: {verify}");
    Ok(Verified {
        written: figure(&verify["written"]),
        checked,
        gap_ms: figure(&measured["longest_gap_ns"]) / 1_000_000,
    })
}

/// Progress of the storm.
#[derive(Debug, Default)]
struct Forecast {
    cuts: u32,
    silences: u32,
    restarts: u32,
}

impl std::fmt::Display for Forecast {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            cuts,
            silences,
            restarts,
        } = self;
        write!(f, "{cuts} cuts, {silences} silences, {restarts} restarts")
    }
}

impl Forecast {
    fn next(
        &mut self,
        random: &mut Random,
        paths: &[PathProxy; 2],
        server: &mut Server,
        bench: &Bench,
    ) -> Result<()> {
        let path = &paths[random.below(2) as usize];
        match random.below(16) {
            0..=4 => {
                path.set(Weather::Cut);
                self.cuts += 1;
            }
            5..=8 => {
                path.set(Weather::Silent);
                self.silences += 1;
            }
            // The process was killed. All writes that it acknowledged are still in the file.
            9 => {
                server.restart(&bench.tools)?;
                self.restarts += 1;
            }
            10..=12 => path.set(Weather::Fair),
            _ => paths.iter().for_each(|path| path.set(Weather::Fair)),
        }
        std::thread::sleep(Duration::from_millis(50 + random.below(900)));
        Ok(())
    }
}
