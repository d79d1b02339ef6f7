//! The program that asks a disk: `smartctl`, with a limit on its time and on its output.

use std::io::{ErrorKind, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time for one disk. A disk that is about to fail may take its time.
const LIMIT: Duration = Duration::from_secs(30);
/// Pause between two looks at whether the program has ended.
const PAUSE: Duration = Duration::from_millis(20);
/// Most bytes of an answer that are read. Disks with long logs answer with some 100 KB.
const MOST: u64 = 4 << 20;

/// Program that asks disks.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    limit: Duration,
}

impl Default for Program {
    fn default() -> Self {
        Self::at("smartctl")
    }
}

impl Program {
    /// Returns the program at this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            limit: LIMIT,
        }
    }

    /// Asks a disk, and returns the answer. A disk that sleeps is left asleep.
    ///
    /// # Errors
    /// The program is not there, or gave no answer in time, in words for people.
    pub(crate) fn ask(&self, node: &str) -> Result<Vec<u8>, String> {
        let mut command = Command::new(&self.path);
        command
            .args(["--json=c", "-n", "standby,0", "-a", node])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => "smartctl is not installed".to_owned(),
            _ => format!("smartctl cannot be run: {error}"),
        })?;
        // Reading has a thread of its own: a full pipe would stop the program.
        let out = child.stdout.take();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = out.map(|out| out.take(MOST).read_to_end(&mut bytes));
            read.unwrap_or(Ok(0)).map(|_| bytes)
        });
        let ended = self.wait(&mut child);
        let answer = reader.join();
        ended?;
        match answer {
            // The status has a bit for each thing that is wrong, and the answer says them too.
            Ok(Ok(bytes)) if !bytes.is_empty() => Ok(bytes),
            Ok(Err(error)) => Err(format!("the answer of smartctl cannot be read: {error}")),
            _ => Err("smartctl gave no answer".to_owned()),
        }
    }

    /// Waits for the end of the program, and ends it when its time is over.
    fn wait(&self, child: &mut Child) -> Result<(), String> {
        let end = Instant::now() + self.limit;
        loop {
            match child.try_wait() {
                Ok(Some(_)) => return Ok(()),
                Ok(None) if Instant::now() < end => std::thread::sleep(PAUSE),
                outcome => {
                    // It may have ended by now; then there is nothing to kill.
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(match outcome {
                        Err(error) => format!("smartctl cannot be waited for: {error}"),
                        Ok(_) => format!("no answer within {} s", self.limit.as_secs()),
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Returns a program that runs this script.
    fn script(folder: &tempfile::TempDir, text: &str) -> Program {
        let path = folder.path().join("smartctl");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
        let rights = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, rights).expect("set");
        Program::at(path)
    }

    #[test]
    fn the_answer_counts_whatever_the_status_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = script(&folder, "echo \"$@\"; exit 72");
        let told = program.ask("/dev/sdx").expect("an answer");
        let told = String::from_utf8(told).expect("text");
        assert_eq!(told.trim(), "--json=c -n standby,0 -a /dev/sdx");
    }

    #[test]
    fn a_disk_that_does_not_answer_costs_no_more_than_the_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = Program {
            limit: Duration::from_millis(50),
            ..script(&folder, "exec sleep 600")
        };
        let error = program.ask("/dev/sdx").expect_err("no answer");
        assert!(error.starts_with("no answer within"), "{error}");
    }

    #[test]
    fn a_long_answer_does_not_stop_the_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = script(&folder, "head -c 300000 /dev/zero");
        assert_eq!(program.ask("x").expect("an answer").len(), 300_000);
    }

    #[test]
    fn a_program_that_is_missing_or_silent_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = Program::at(folder.path().join("none"));
        assert_eq!(
            missing.ask("x").expect_err("missing"),
            "smartctl is not installed"
        );
        let silent = script(&folder, "exit 1");
        assert_eq!(
            silent.ask("x").expect_err("silent"),
            "smartctl gave no answer"
        );
    }
}
