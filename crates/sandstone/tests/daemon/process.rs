//! Real daemon as a process with a state folder of its own, and its command line.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use testing::wait;

/// Daemon of a test, and its state folder.
pub(crate) struct Process {
    state: tempfile::TempDir,
    child: Option<Child>,
}

impl Process {
    /// Starts a daemon on an empty folder.
    pub(crate) fn start() -> Self {
        Self::start_in(&std::env::temp_dir())
    }

    /// Starts a daemon on an empty folder inside `folder`.
    pub(crate) fn start_in(folder: &Path) -> Self {
        let mut process = Self {
            state: tempfile::tempdir_in(folder).unwrap(),
            child: None,
        };
        process.restart();
        process
    }

    /// Starts the daemon again after [`Process::kill`].
    pub(crate) fn restart(&mut self) {
        let child = Command::new(env!("CARGO_BIN_EXE_sandstone"))
            .args([
                "serve",
                "--console",
                "off",
                "--log",
                "error",
                "--cache",
                "64M",
                "--state",
            ])
            .arg(self.state.path())
            .stdin(Stdio::null())
            .spawn();
        self.child = Some(child.unwrap());
        wait::until_seen("it starts", || self.verb("status"), |told| told.0);
    }

    /// Kills the daemon with `kill -9`.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ends the daemon in order.
    pub(crate) fn stop(&mut self) {
        self.signal("TERM");
        let mut child = self.child.take().expect("it runs");
        assert!(child.wait().unwrap().success());
    }

    /// Sends a signal to the daemon.
    pub(crate) fn signal(&self, name: &str) {
        let child = self.child.as_ref().expect("it runs");
        let sent = Command::new("kill")
            .args(["-s", name, &child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Returns the state folder.
    pub(crate) fn folder(&self) -> &Path {
        self.state.path()
    }

    /// Runs a verb, and returns whether it did its work, and its output.
    ///
    /// A verb that reports that something is not well did its work.
    pub(crate) fn verb(&self, line: &str) -> (bool, String) {
        let (code, text) = self.ended(line);
        (matches!(code, 0 | 3 | 4), text)
    }

    /// Runs a verb, and returns its exit code and output.
    pub(crate) fn ended(&self, line: &str) -> (i32, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_sandstone"))
            .arg("--state")
            .arg(self.state.path())
            .args(line.split_whitespace())
            .current_dir(self.state.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        let code = output.status.code().expect("no signal ended it");
        (code, String::from_utf8_lossy(&text).into_owned())
    }

    /// Runs a verb that must end well, and returns its output.
    pub(crate) fn done(&self, line: &str) -> String {
        let (is_done, text) = self.verb(line);
        assert!(is_done, "{line}: {text}");
        text
    }

    /// Runs a verb that must be refused, and returns its output.
    pub(crate) fn refused(&self, line: &str) -> String {
        let (is_done, text) = self.verb(line);
        assert!(!is_done, "{line}: {text}");
        text
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}
