//! Commands of the system (`ip`, `tc`, `ss`), and this program itself inside a namespace.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::error::LabError;

/// Interval at which a running child is checked.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a short command of the system, and returns its output.
pub(super) fn system(words: &[&str]) -> Result<String, LabError> {
    let (program, arguments) = words.split_first().unwrap_or((&"", &[]));
    let shown = words.join(" ");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    // A Ctrl-C is meant for this program. A half-done command would be harder to clean up.
    command.process_group(0);
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => LabError::Missing(format!(
            "the program `{program}` is missing (Debian's package iproute2)"
        )),
        _ => LabError::system(format!("run `{shown}`"))(error),
    })?;
    said(&shown, output)
}

fn said(shown: &str, output: Output) -> Result<String, LabError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(LabError::Command {
        command: shown.to_owned(),
        said: errors.trim().to_owned(),
    })
}

/// Builds a command that runs this program with other arguments inside a namespace.
pub(super) fn inside(namespace: &str, arguments: &[String]) -> Result<Command, LabError> {
    let program = std::env::current_exe().map_err(LabError::system("find this program"))?;
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", namespace])
        .arg(program)
        .args(arguments);
    command.process_group(0).stdin(Stdio::null());
    Ok(command)
}

/// Child process that does not outlive this value.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    shown: String,
}

impl Running {
    pub(super) fn start(mut command: Command) -> Result<Self, LabError> {
        let arguments: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy())
            .collect();
        let shown = format!("ip {}", arguments.join(" "));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command
            .spawn()
            .map_err(LabError::system(format!("run `{shown}`")))?;
        Ok(Self { child, shown })
    }

    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the child's output when it ends, which must happen within `limit`.
    pub(super) fn finish(mut self, limit: Duration, stop: &AtomicBool) -> Result<String, LabError> {
        // The pipes are read at the same time, because a full pipe would keep the child from
        // ending.
        let out = drain(self.child.stdout.take());
        let err = drain(self.child.stderr.take());
        let end = Instant::now() + limit;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if stop.load(Ordering::Relaxed) => return Err(LabError::Interrupted),
                Ok(None) if Instant::now() >= end => {
                    return Err(LabError::Command {
                        command: self.shown.clone(),
                        said: format!("it did not end within {} s", limit.as_secs()),
                    });
                }
                Ok(None) => thread::sleep(LOOK),
                Err(error) => return Err(LabError::system("wait for a process")(error)),
            }
        };
        let text = |thread: thread::JoinHandle<Vec<u8>>| thread.join().unwrap_or_default();
        let (stdout, stderr) = (text(out), text(err));
        said(
            &self.shown,
            Output {
                status,
                stdout,
                stderr,
            },
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The child may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn drain(pipe: Option<impl io::Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // A pipe that breaks ends the text. The part that was read is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Sleeps, but wakes early if the user wants to stop.
pub(super) fn pause(time: Duration, stop: &AtomicBool) -> Result<(), LabError> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if stop.load(Ordering::Relaxed) {
            return Err(LabError::Interrupted);
        }
        thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
    }
    Ok(())
}
