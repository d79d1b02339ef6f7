//! Runner of programs of other projects, always with a limit of time, and never left behind.
//!
//! A child dies with this process even if this process is killed (`setpriv --pdeathsig`). A child
//! that outlives its limit is killed with everything it started.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};

/// Interval between two checks of a wait.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Result of a finished program.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Exit status of the program.
    pub(crate) status: ExitStatus,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Finished {
    /// Returns the last lines of both streams, for an error message.
    pub(crate) fn tail(&self) -> String {
        let mut text = last_lines(&self.stdout, 12);
        let errors = last_lines(&self.stderr, 12);
        if !errors.is_empty() {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&errors);
        }
        text
    }
}

/// Runs `command` to its end, and returns its output, whatever its exit status.
///
/// # Errors
/// The command cannot be started, or `limit` is over. In the second case it has been killed.
pub(crate) fn finish(command: Command, limit: Duration) -> Result<Finished> {
    let shown = show(&command);
    let mut child = start(command, Stdio::piped(), Stdio::piped())?;
    let stdout = collect(child.child.stdout.take());
    let stderr = collect(child.child.stderr.take());
    let status = child.wait(limit);
    if status.is_err() {
        child.kill();
    }
    let receive = |pipe: mpsc::Receiver<String>| {
        pipe.recv_timeout(Duration::from_secs(2))
            .unwrap_or_default()
    };
    let (stdout, stderr) = (receive(stdout), receive(stderr));
    match status {
        Ok(status) => Ok(Finished {
            status,
            stdout,
            stderr,
        }),
        Err(error) => Err(error.context(format!(
            "{shown}\n{}\n{}",
            last_lines(&stdout, 12),
            last_lines(&stderr, 12)
        ))),
    }
}

/// Runs `command` and returns its standard output.
///
/// # Errors
/// Fails as [`finish`] does, and if the exit status is not 0.
pub(crate) fn output(command: Command, limit: Duration) -> Result<String> {
    let shown = show(&command);
    let finished = finish(command, limit)?;
    if !finished.status.success() {
        bail!("{shown}: {}\n{}", ended(finished.status), finished.tail());
    }
    Ok(finished.stdout)
}

/// Runs `command`, and gives each line of its standard output and error to `line` as it appears.
/// Both come through one pipe, so that they stay in their order. If the program hangs, the line
/// that it had begun is given too, because it shows the place.
///
/// # Errors
/// The command cannot be started, it was silent for longer than `silence`, or `limit` is over.
pub(crate) fn stream(
    command: Command,
    silence: Duration,
    limit: Duration,
    mut line: impl FnMut(&str),
) -> Result<ExitStatus> {
    let (reader, writer) = std::io::pipe().context("make a pipe")?;
    let again = writer.try_clone().context("clone a pipe")?;
    let mut child = start(command, Stdio::from(writer), Stdio::from(again))?;
    let (sender, receiver) = mpsc::channel();
    forward(reader, sender);
    let end = Instant::now() + limit;
    let mut begun = String::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let error = match receiver.recv_timeout(left.min(silence)) {
            Ok(Piece::Line(text)) => {
                line(&text);
                begun.clear();
                continue;
            }
            Ok(Piece::Begun(text)) => {
                begun = text;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return child.wait(Duration::from_secs(10)),
            Err(RecvTimeoutError::Timeout) if Instant::now() >= end => {
                anyhow!("not finished after {} s", limit.as_secs())
            }
            Err(RecvTimeoutError::Timeout) => anyhow!("silent for {} s", silence.as_secs()),
        };
        line(&begun);
        return Err(error);
    }
}

/// Output of a program.
enum Piece {
    /// A whole line.
    Line(String),
    /// A line as far as it has come.
    Begun(String),
}

/// Program that runs beside us and dies with this value.
#[derive(Debug)]
pub(crate) struct Running {
    /// Child process. Its pipes are taken by the caller that asked for them.
    pub(crate) child: Child,
}

impl Running {
    /// Waits for the end of the program.
    ///
    /// # Errors
    /// `limit` is over, and the program still runs.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().context("wait for a child")? {
                return Ok(status);
            }
            if Instant::now() >= end {
                bail!("not finished after {} s", limit.as_secs());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Kills the program and its process group by `kill -9`, and collects its status.
    pub(crate) fn kill(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal("KILL");
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// Asks the program to end, and kills it if it does not within `limit`. Returns true if it
    /// ended by itself.
    pub(crate) fn terminate(&mut self, limit: Duration) -> bool {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal("TERM");
        }
        let ended = self.wait(limit).is_ok();
        self.kill();
        ended
    }

    /// Sends a signal to the process group of the program.
    pub(crate) fn signal(&self, name: &str) {
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill")
            .args(["-s", name, "--", &group])
            .stderr(Stdio::null())
            .status();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts `command` in its own process group, tied to our life.
///
/// # Errors
/// The command cannot be started.
pub(crate) fn start(command: Command, stdout: Stdio, stderr: Stdio) -> Result<Running> {
    let shown = show(&command);
    let mut tied = Command::new("setpriv");
    tied.args(["--pdeathsig", "KILL", "--"])
        .arg(command.get_program())
        .args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => tied.env(key, value),
            None => tied.env_remove(key),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        tied.current_dir(folder);
    }
    tied.process_group(0)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr);
    let child = tied.spawn().with_context(|| format!("start {shown}"))?;
    Ok(Running { child })
}

/// Starts `command` with both streams going to the file `log`.
///
/// # Errors
/// The file cannot be made, or the program cannot be started.
pub(crate) fn start_logged(command: Command, log: &Path) -> Result<Running> {
    let file = File::options()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("open {}", log.display()))?;
    let again = file.try_clone().context("clone the log's handle")?;
    start(command, Stdio::from(file), Stdio::from(again))
}

/// Checks `condition` until it holds.
///
/// # Errors
/// `limit` is over. The message says that `what` did not happen.
pub(crate) fn until(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> bool,
) -> Result<()> {
    let end = Instant::now() + limit;
    while !condition() {
        if Instant::now() >= end {
            return Err(anyhow!("{what}: not after {} s", limit.as_secs()));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Returns the command as a person would type it.
pub(crate) fn show(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// Returns an exit status in words.
pub(crate) fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Returns the last `count` lines of `text` that are not empty.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // A pipe that breaks ends the text. The part that was read until then is still worth
            // showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn forward(mut pipe: impl Read + Send + 'static, sender: mpsc::Sender<Piece>) {
    std::thread::spawn(move || {
        let mut held = Vec::new();
        let mut chunk = [0; 8192];
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        loop {
            let count = match pipe.read(&mut chunk) {
                Ok(count) if count > 0 => count,
                _ => break,
            };
            held.extend_from_slice(&chunk[..count]);
            while let Some(end) = held.iter().position(|byte| *byte == b'\n') {
                let rest = held.split_off(end + 1);
                if sender.send(Piece::Line(text(&held))).is_err() {
                    return;
                }
                held = rest;
            }
            if sender.send(Piece::Begun(text(&held))).is_err() {
                return;
            }
        }
        if !held.is_empty() {
            let _ = sender.send(Piece::Line(text(&held)));
        }
    });
}
