//! Measured process, and the conversation with it: a line of JSON for each command and answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// Load as it is requested.
#[derive(Clone, Debug)]
pub(super) struct Load {
    fields: serde_json::Map<String, Value>,
}

impl Load {
    fn new(write: bool, random: bool, size: u32, depth: usize) -> Self {
        let fields = json!({ "write": write, "random": random, "size": size, "depth": depth });
        let Value::Object(fields) = fields else {
            unreachable!("it was made as one");
        };
        Self { fields }
    }

    pub(super) fn random_write(size: u32, depth: usize) -> Self {
        Self::new(true, true, size, depth)
    }

    pub(super) fn random_read(size: u32, depth: usize) -> Self {
        Self::new(false, true, size, depth)
    }

    pub(super) fn sequential_write(size: u32, depth: usize) -> Self {
        Self::new(true, false, size, depth)
    }

    pub(super) fn sequential_read(size: u32, depth: usize) -> Self {
        Self::new(false, false, size, depth)
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// Directs the load to this file or volume.
    pub(super) fn on(&self, target: &str) -> Self {
        self.clone().with("target", target)
    }

    pub(super) fn seconds(self, seconds: f64) -> Self {
        self.with("seconds", seconds)
    }

    pub(super) fn bytes(self, bytes: u64) -> Self {
        self.with("bytes", bytes)
    }

    /// Limits the load to `len` bytes from the start.
    pub(super) fn within(self, len: u64) -> Self {
        self.with("len", len)
    }

    /// Starts the load at this byte.
    pub(super) fn from(self, start: u64) -> Self {
        self.with("start", start)
    }

    /// Makes each write durable by itself.
    pub(super) fn durable(self) -> Self {
        self.with("sync", "durable")
    }

    /// Adds a flush after each write.
    pub(super) fn flushed_each(self) -> Self {
        self.with("sync", "flush")
    }

    /// Counts a flush at the end.
    pub(super) fn flushed(self) -> Self {
        self.with("flush", true)
    }

    /// Looks at each byte that was read.
    pub(super) fn looked_at(self) -> Self {
        self.with("look", true)
    }

    pub(super) fn seed(self, seed: u64) -> Self {
        self.with("seed", seed)
    }
}

/// Results of a load.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
pub(super) struct Figures {
    pub(super) operations: u64,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    pub(super) p99_us: f64,
    /// Seconds of processor time of the process, for all loads that ran together.
    #[serde(default)]
    pub(super) processor_s: f64,
    /// Seconds of it that threads of pools took.
    #[serde(default)]
    pub(super) pools_s: f64,
    /// Orders that were handed to threads of pools, for all loads that ran together.
    #[serde(default)]
    pub(super) orders: u64,
    /// Times that a thread of a pool was woken for them.
    #[serde(default)]
    pub(super) pool_wakes: u64,
    /// Times that another thread woke the load's lane.
    #[serde(default)]
    pub(super) lane_wakes: u64,
    /// Allocations of the process, for all loads that ran together. Only builds that count tell.
    #[serde(default)]
    pub(super) allocations: Option<u64>,
    /// Keys hashed for the store's tables, for all loads that ran together.
    #[serde(default)]
    pub(super) hashes: Option<u64>,
}

impl Figures {
    /// Returns operations in a second.
    pub(super) fn iops(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// Returns megabytes in a second.
    pub(super) fn mb_s(&self) -> f64 {
        self.bytes as f64 / self.seconds / 1e6
    }
}

/// Builds the program with optimizations, and returns its path. A build that counts is slower.
pub(super) fn build(counts: bool) -> Result<PathBuf, String> {
    let features: &[&str] = match counts {
        true => &["--features", "counted"],
        false => &[],
    };
    let what = [&["--package", "pools", "--example", "pool_load"], features].concat();
    let folder = crate::bench::build(&what)?;
    Ok(folder.join("examples/pool_load"))
}

/// Process at work.
pub(super) struct Loader {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Loader {
    pub(super) fn start(program: &Path, dir: &Path, cache: u64) -> Result<Self, String> {
        let state = dir.join("state.bench");
        std::fs::create_dir_all(&state).map_err(|error| format!("{}: {error}", state.display()))?;
        let mut child = Command::new(program)
            .arg(&state)
            .arg(cache.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let (commands, answers) = (child.stdin.take(), child.stdout.take());
        let (Some(commands), Some(answers)) = (commands, answers) else {
            return Err("the process has no pipes".into());
        };
        let answers = BufReader::new(answers);
        Ok(Self {
            child,
            commands,
            answers,
        })
    }

    /// Runs one command.
    pub(super) fn ask(&mut self, command: &Value) -> Result<Value, String> {
        let gone = |error: std::io::Error| format!("the process that is measured ended: {error}");
        writeln!(self.commands, "{command}").map_err(gone)?;
        self.commands.flush().map_err(gone)?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(gone)?;
        let answer: Value = serde_json::from_str(&line)
            .map_err(|_| "the process that is measured ended without an answer".to_owned())?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(format!("{error} (asked for {command})")),
            None => Ok(answer),
        }
    }

    /// Runs loads beside one another.
    pub(super) fn load(&mut self, loads: &[Load]) -> Result<Vec<Figures>, String> {
        let fields: Vec<&serde_json::Map<String, Value>> =
            loads.iter().map(|load| &load.fields).collect();
        let answer = self.ask(&json!({ "do": "load", "loads": fields }))?;
        serde_json::from_value(answer["results"].clone()).map_err(|error| error.to_string())
    }

    /// Returns the bytes that the process has written to devices so far.
    pub(super) fn written(&self) -> Result<u64, String> {
        let path = format!("/proc/{}/io", self.child.id());
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("write_bytes:"));
        line.and_then(|bytes| bytes.trim().parse().ok())
            .ok_or_else(|| format!("{path} is not as expected"))
    }

    /// Checks that a load's writes are there. Returns the numbers of right and of wrong places.
    pub(super) fn verify(&mut self, load: &Load) -> Result<(u64, u64), String> {
        let answer = self.ask(&json!({ "do": "verify", "load": load.fields }))?;
        let count = |what: &str| answer[what].as_u64();
        count("right")
            .zip(count("wrong"))
            .ok_or_else(|| format!("{answer} is not an answer"))
    }

    /// Resets the recorded peak of memory.
    pub(super) fn reset_peak_memory(&self) -> Result<(), String> {
        let path = format!("/proc/{}/clear_refs", self.child.id());
        std::fs::write(&path, "5").map_err(|error| format!("{path}: {error}"))
    }

    /// Returns the most memory that the process had, in bytes, ever or since the last reset.
    pub(super) fn peak_memory(&self) -> Result<u64, String> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kib.map(|kib| kib << 10)
            .ok_or_else(|| format!("{path} is not as expected"))
    }

    /// Kills the process without any warning.
    pub(super) fn kill(mut self) -> Result<(), String> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(|error| error.to_string())
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // The process may have ended by itself, or been killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
