//! Lab of Debian's Prometheus. It scrapes a daemon under load, and what we ship for it must work:
//! promtool accepts the metrics, the alert rules and their tests, and every query of the dashboard
//! has an answer.

mod api;
mod queries;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use self::api::Api;
use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::packages::Bundle;
use crate::machine::process::{self, Running};
use crate::machine::scratch;
use crate::servers::server::{self, Server, ServerKind, Spec};

const LIMIT: Duration = Duration::from_secs(180);
/// Number of scrapes, one a second, after which every rate has a value.
const SCRAPES: f64 = 8.0;
const TARGET: &str = "iqn.2026-01.io.sandstone:metrics";

/// Lab of Prometheus.
pub(crate) const LABS: &[Lab] = &[Lab {
    name: "prometheus",
    about: "Debian's Prometheus scrapes a daemon under load: metrics, alert rules, and every query of the dashboard",
    room: Room::Shared,
    run,
}];

/// Returns a file that is shipped.
fn packaged(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../packaging")
        .join(name)
}

fn run(bench: &Bench) -> Result<Outcome> {
    let ServerKind::Sandstone(program) = &bench.kind else {
        return Ok(Outcome::Skipped("it is about our own metrics".to_owned()));
    };
    let bundle = bench.tools.prometheus()?;
    let folder = scratch::folder("prometheus")?;
    // Another machine's target, so that the daemon is an initiator too.
    let other = bench.serve(Spec::default())?;
    let mut daemon = Daemon::start(program, folder.path(), &other)?;
    let _loads = daemon.load()?;
    let prometheus = start(bundle, folder.path(), daemon.metrics)?;
    let files = ["sandstone.rules.test.yml", "sandstone.rules.days.test.yml"];
    let rule_tests = promtool(bundle, &[&["test", "rules"][..], &files].concat())?;
    promtool(bundle, &["check", "rules", "sandstone.rules.yml"])?;
    ensure!(
        rule_tests.contains("SUCCESS"),
        "promtool test rules: {rule_tests}"
    );
    lint(bundle, folder.path(), daemon.metrics)?;

    let scraped = |api: &Api| -> Result<bool> {
        let scrapes = api.number("count_over_time(up{job=\"sandstone\"}[1m])")?;
        Ok(scrapes.is_some_and(|scrapes| scrapes >= SCRAPES))
    };
    process::until("Prometheus has scraped the daemon", LIMIT, || {
        scraped(&prometheus.api).unwrap_or(false)
    })?;
    prometheus.api.targets_are_well()?;
    prometheus.api.rules_are_well()?;
    let answered = queries::all_have_answers(&prometheus.api, &packaged("grafana/sandstone.json"))?;
    let series = prometheus.api.number("count({job=\"sandstone\"})")?;
    let seconds = prometheus
        .api
        .number("max_over_time(scrape_duration_seconds[1m])")?;
    daemon.check_alive()?;
    Ok(Outcome::passed(format!(
        "{answered} queries answered, {} series, at most {:.0} ms for a scrape",
        series.context("no series")?,
        seconds.context("no scrape")? * 1e3
    )))
}

/// The daemon under test.
struct Daemon {
    program: PathBuf,
    folder: PathBuf,
    process: Running,
    /// Port of the metrics.
    metrics: u16,
    /// Port of the target.
    portal: u16,
}

impl Daemon {
    /// Starts a daemon that has one of everything: a pool with all classes of vdevs, a volume, a
    /// unit of another machine, a host, a scrub.
    fn start(program: &Path, folder: &Path, other: &Server) -> Result<Self> {
        let (metrics, portal) = (server::free_port()?, server::free_port()?);
        let mut command = Command::new(program);
        command
            .args(["serve", "--cache", "64M", "--metrics"])
            .arg(format!("127.0.0.1:{metrics}"))
            .arg("--state")
            .arg(folder.join("state"));
        let daemon = Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            process: process::start_logged(command, &server::log_file(folder))?,
            metrics,
            portal,
        };
        process::until("the daemon answers", LIMIT, || {
            daemon.ask(&["status"]).is_ok()
        })?;
        let file = |name: &str| folder.join(name).display().to_string();
        let vdevs = ["mirror", &file("a"), &file("b")];
        let others = ["log", &file("c"), "cache", &file("d"), "spare", &file("e")];
        let pool = ["pool", "create", "--size", "256M", "tank"];
        daemon.ask(&[&pool[..], &vdevs, &others].concat())?;
        daemon.ask(&[
            "lu", "create", "vm1", "--volume", "tank/vm1", "--size", "64M",
        ])?;
        daemon.ask(&["lu", "create", "far", "--backend", &other.url(0)])?;
        let address = format!("127.0.0.1:{portal}");
        daemon.ask(&["target", "create", TARGET, "--portal", &address])?;
        daemon.ask(&["host", "create", "clients", "--initiator", "iqn.*"])?;
        for (unit, lun) in [("vm1", "0"), ("far", "1")] {
            let to = ["--host", "clients", "--target", TARGET, "--lun", lun];
            daemon.ask(&[&["map", "add", unit][..], &to].concat())?;
        }
        daemon.ask(&["pool", "scrub", "tank"])?;
        Ok(daemon)
    }

    fn ask(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .arg("--state")
            .arg(self.folder.join("state"));
        process::output(command, LIMIT)
    }

    /// Reads and writes both units until the value is dropped.
    fn load(&self) -> Result<Vec<Running>> {
        let start = |lun: u8| {
            let url = format!("iscsi://127.0.0.1:{}/{TARGET}/{lun}", self.portal);
            let mut command = Command::new(&self.program);
            command.args(["bench", "run", &url, "--destroy-data"]);
            command.args(["--block", "4k", "--reads", "60", "--random", "100"]);
            command.args(["--rate", "300", "--time", "10m"]);
            process::start_logged(command, &self.folder.join(format!("load-{lun}.log")))
        };
        Ok(vec![start(0)?, start(1)?])
    }

    fn check_alive(&mut self) -> Result<()> {
        let ended = self.process.child.try_wait()?;
        ensure!(ended.is_none(), "the daemon ended under its scrapes");
        Ok(())
    }
}

/// Runs promtool beside the shipped rules, and returns what it says.
fn promtool(bundle: &Bundle, arguments: &[&str]) -> Result<String> {
    let mut command = bundle.command("promtool")?;
    command.args(arguments).current_dir(packaged("prometheus"));
    process::output(command, LIMIT).with_context(|| format!("promtool {}", arguments.join(" ")))
}

/// Checks the metrics by promtool. It must have nothing to say.
fn lint(bundle: &Bundle, folder: &Path, port: u16) -> Result<()> {
    let (status, text) = api::get(port, "/metrics", "text/plain")?;
    ensure!(status == 200, "the metrics have the status {status}");
    let file = folder.join("metrics.txt");
    fs::write(&file, text)?;
    let mut command = bundle.command("promtool")?;
    command.args(["check", "metrics"]);
    command.stdin(Stdio::from(fs::File::open(&file)?));
    let said = process::finish(command, LIMIT)?;
    ensure!(
        said.status.success() && said.tail().trim().is_empty(),
        "promtool check metrics: {}",
        said.tail()
    );
    Ok(())
}

/// Prometheus at work.
struct Prometheus {
    api: Api,
    _process: Running,
}

/// Starts a Prometheus that scrapes once a second, with the shipped rules.
fn start(bundle: &Bundle, folder: &Path, metrics: u16) -> Result<Prometheus> {
    let port = server::free_port()?;
    let configuration = folder.join("prometheus.yml");
    let rules = packaged("prometheus/sandstone.rules.yml").canonicalize()?;
    fs::write(
        &configuration,
        format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{}']\n\
             scrape_configs:\n  - job_name: sandstone\n    static_configs: [{{targets: ['127.0.0.1:{metrics}']}}]\n",
            rules.display()
        ),
    )?;
    let mut command = bundle.command("prometheus")?;
    command
        .arg(format!("--config.file={}", configuration.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            folder.join("data").display()
        ))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let log = folder.join("prometheus.log");
    let process = process::start_logged(command, &log)?;
    process::until("Prometheus is ready", LIMIT, || {
        api::get(port, "/-/ready", "*/*").is_ok_and(|(status, _)| status == 200)
    })
    .with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
    Ok(Prometheus {
        api: Api { port },
        _process: process,
    })
}
