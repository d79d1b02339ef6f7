//! Labs of what people watch: `top` in a real terminal, tmux, and `iostat` beside sysstat's.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::packages::{Bundle, on_path};
use crate::machine::process;
use crate::machine::scratch;
use crate::servers::server::{Server, ServerKind, Spec};

const LIMIT: Duration = Duration::from_secs(30);

/// Prompt of the shell.
const PROMPT: &str = "shell>";

/// Labs of the terminal.
pub(crate) const LABS: &[Lab] = &[
    Lab {
        name: "top-tmux",
        about: "top under load in tmux, at 80 and 200 columns: views, job control, signals, the way back",
        room: Room::Shared,
        run: top,
    },
    Lab {
        name: "iostat-sysstat",
        about: "iostat -x has the header, the columns and the JSON keys of Debian's sysstat",
        room: Room::Shared,
        run: iostat,
    },
];

const PEER: &str = "tgt has neither top nor iostat; this lab is about Sandstone's";

/// Returns a program of the machine, or of Debian's packages.
fn tool(bench: &Bench, name: &str) -> Result<(Command, Option<PathBuf>)> {
    if let Some(program) = on_path(name) {
        return Ok((Command::new(program), None));
    }
    let bundle: &Bundle = bench.tools.terminal()?;
    Ok((bundle.command(name)?, Some(bundle.root.clone())))
}

/// A terminal in tmux, with a shell in it.
struct Screen<'a> {
    bench: &'a Bench,
    socket: PathBuf,
}

impl<'a> Screen<'a> {
    fn start(bench: &'a Bench, server: &Server, width: u16, shell: &str) -> Result<Self> {
        let socket = server.folder().join(format!("tmux{width}"));
        let screen = Self { bench, socket };
        let width = width.to_string();
        let size = ["-x", &width, "-y", "24"];
        let new = ["new-session", "-d"];
        screen.tmux(&[&new[..], &size, &[shell]].concat())?;
        Ok(screen)
    }

    fn tmux(&self, words: &[&str]) -> Result<String> {
        let (mut command, root) = tool(self.bench, "tmux")?;
        if let Some(root) = root {
            let folders = ["usr/share/terminfo", "usr/lib/terminfo", "lib/terminfo"];
            let folders = folders.map(|folder| root.join(folder).display().to_string());
            command.env("TERMINFO_DIRS", folders.join(":"));
        }
        command
            .arg("-S")
            .arg(&self.socket)
            .args(["-f", "/dev/null"])
            .args(words)
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "screen");
        process::output(command, LIMIT)
    }

    fn types(&self, keys: &[&str]) -> Result<()> {
        self.tmux(&[&["send-keys"], keys].concat()).map(drop)
    }

    fn text(&self) -> Result<String> {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits for a text on the screen, and returns the screen.
    fn shows(&self, what: &str) -> Result<String> {
        let mut text = String::new();
        let shown = process::until(&format!("the screen shows {what:?}"), LIMIT, || {
            text = self.text().unwrap_or_default();
            text.contains(what)
        });
        shown.with_context(|| format!("the screen is:\n{text}"))?;
        Ok(text)
    }

    /// Waits until the shell has its screen back, with its line editing.
    fn is_given_back(&self, mark: &str) -> Result<()> {
        // Keys that come before the shell's prompt may still be those of `top`.
        let is_ready = |text: &str| text.trim_end().ends_with(PROMPT);
        let normal = process::until("the terminal is given back", LIMIT, || {
            let alternate = self.tmux(&["display-message", "-p", "#{alternate_on}"]);
            alternate.is_ok_and(|text| text.trim() == "0")
                && self.text().is_ok_and(|text| is_ready(&text))
        });
        normal.with_context(|| self.text().unwrap_or_default())?;
        self.types(&[
            &format!("stty -a | grep -c -w -- 'icanon.*echo' | sed s/^/{mark}=/"),
            "Enter",
        ])?;
        self.shows(&format!("{mark}=")).map(drop)
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        // A server that has ended needs no end.
        let _ = self.tmux(&["kill-server"]);
    }
}

fn top(bench: &Bench) -> Result<Outcome> {
    let ServerKind::Sandstone(program) = &bench.kind else {
        return Ok(Outcome::Skipped(PEER.into()));
    };
    if let Err(error) = tool(bench, "tmux") {
        return Ok(Outcome::Skipped(format!("there is no tmux: {error:#}")));
    }
    let mut server = bench.serve(Spec {
        size_mib: 64,
        ..Spec::default()
    })?;
    let state = server.folder().join("state");
    let configuration = scratch::folder("top")?;
    let mut load = Command::new(program);
    load.args(["bench", "run", &server.url(0), "--destroy-data"])
        .args(["--block", "4K", "--reads", "70", "--random", "100"])
        .args(["--rate", "500", "--time", "10m", "--ramp-up", "0"]);
    let log = server.folder().join("load.log");
    let _load = process::start_logged(load, &log)?;
    let mut looks = 0;
    for width in [80, 200] {
        let shell = format!(
            "PS1='{PROMPT} ' XDG_CONFIG_HOME={} SANDSTONE_STATE={} sh -i",
            configuration.path().display(),
            state.display()
        );
        let screen = Screen::start(bench, &server, width, &shell)?;
        looks += views(&screen, program.display().to_string().as_str(), width)?;
        ways_back(&screen, program.display().to_string().as_str())?;
    }
    server.check_alive()?;
    Ok(Outcome::passed(format!(
        "{looks} screens read; suspended, resized, killed and ended, the shell had its terminal each time"
    )))
}

/// Looks at each view under load. Returns the number of screens.
fn views(screen: &Screen<'_>, program: &str, width: u16) -> Result<usize> {
    screen.types(&[&format!("{program} top -d 1"), "Enter"])?;
    // The load of 500 commands a second is seen.
    let rate = |text: &str| -> Option<f64> {
        let mut lines = text.lines().skip_while(|line| !line.starts_with("DEVICE"));
        let titles: Vec<&str> = lines.next()?.split_whitespace().collect();
        let cells: Vec<&str> = lines.next()?.split_whitespace().collect();
        let at = titles.iter().position(|title| *title == "CMDS/s")?;
        cells.get(at)?.parse().ok()
    };
    let mut text = String::new();
    let seen = process::until("the load shows", LIMIT, || {
        text = screen.text().unwrap_or_default();
        rate(&text).is_some_and(|rate| rate > 100.0)
    });
    seen.with_context(|| text.clone())?;
    let mut looks = 1;
    for (keys, expected) in [
        (&["d"][..], "ADAPTR"),
        (&["e"], "sessio"),
        (&["v"], "VMNAME"),
        (&["n"], "PKTTX/s"),
        (&["p"], "POOL/VDEV/DISK"),
        (&["h"], "Views:"),
        // A key right behind Escape would be one with Alt.
        (&["Escape"], "POOL/VDEV/DISK"),
        (&["u", "9"], "P99/rd"),
        (&["/", "nothing", "Enter"], "no row has this text"),
        (&["Escape"], "DEVICE"),
        (&["r"], "by READS/s"),
        (&["s", "2", "Enter"], "every 2 s"),
    ] {
        screen.types(keys)?;
        let text = screen.shows(expected)?;
        looks += 1;
        let widest = text.lines().map(|line| line.chars().count()).max();
        ensure!(widest <= Some(width.into()), "wider than {width}:\n{text}");
    }
    Ok(looks)
}

/// Leaves `top` by job control, a signal and a key; each time the shell gets its terminal back.
fn ways_back(screen: &Screen<'_>, program: &str) -> Result<()> {
    screen.types(&["C-z"])?;
    screen.is_given_back("suspended")?;
    screen.types(&["fg", "Enter"])?;
    screen.shows("DEVICE")?;
    screen.tmux(&["resize-window", "-x", "100", "-y", "10"])?;
    screen.shows("DEVICE")?;
    screen.types(&["q"])?;
    screen.is_given_back("ended")?;
    screen.types(&[&format!("{program} top -d 1"), "Enter"])?;
    screen.shows("DEVICE")?;
    let shell = screen.tmux(&["display-message", "-p", "#{pane_pid}"])?;
    let mut kill = Command::new("pkill");
    kill.args(["-TERM", "-P", shell.trim()]);
    process::output(kill, LIMIT)?;
    screen.is_given_back("killed")
}

fn iostat(bench: &Bench) -> Result<Outcome> {
    let ServerKind::Sandstone(program) = &bench.kind else {
        return Ok(Outcome::Skipped(PEER.into()));
    };
    if let Err(error) = tool(bench, "iostat") {
        return Ok(Outcome::Skipped(format!("there is no sysstat: {error:#}")));
    }
    let server = bench.serve(Spec {
        size_mib: 32,
        ..Spec::default()
    })?;
    let state = server.folder().join("state");
    let theirs = |words: &[&str]| -> Result<String> {
        let (mut command, _) = tool(bench, "iostat")?;
        command
            .args(words)
            .env("LC_ALL", "C")
            .env("S_COLORS", "never");
        process::output(command, LIMIT)
    };
    let ours = |words: &[&str]| -> Result<String> {
        let mut command = Command::new(program);
        command.arg("--state").arg(&state).arg("iostat").args(words);
        process::output(command, LIMIT)
    };
    process::until("the unit is in a snapshot", LIMIT, || {
        ours(&["-H"]).is_ok_and(|text| !text.trim().is_empty())
    })?;
    let mut compared = 0;
    for words in [
        &["-x"][..],
        &["-x", "-m"],
        &["-x", "-s"],
        &["-x", "-s", "-m"],
    ] {
        let header = |text: &str| {
            let line = text.lines().find(|line| line.starts_with("Device"));
            line.map(str::to_owned)
        };
        let (real, own) = (theirs(&[&["-d"], words].concat())?, ours(words)?);
        ensure!(
            header(&real).is_some() && header(&real) == header(&own),
            "{words:?} differs:\n{real}\n{own}"
        );
        compared += 1;
        let json = [words, &["-o", "JSON"]].concat();
        let (real, own) = (theirs(&[&["-d"], &json[..]].concat())?, ours(&json)?);
        ensure!(
            keys(&real) == keys(&own) && !keys(&own).is_empty(),
            "{json:?} differs:\n{real}\n{own}"
        );
        let parsed: serde_json::Value = serde_json::from_str(&own).context("our JSON")?;
        ensure!(
            parsed["sysstat"]["hosts"][0]["statistics"].is_array(),
            "{own}"
        );
        compared += 1;
    }
    Ok(Outcome::passed(format!("{compared} forms are alike")))
}

/// Returns all keys of the first disk and of what is around it, in their order.
fn keys(json: &str) -> Vec<&str> {
    let first = json.split('}').next().unwrap_or_default();
    let quoted = first
        .split('"')
        .skip(1)
        .step_by(2)
        .zip(first.split('"').skip(2).step_by(2));
    let keys = quoted.filter(|(_, after)| after.trim_start().starts_with(':'));
    keys.map(|(key, _)| key).collect()
}
