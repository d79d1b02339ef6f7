//! Viewers: streams of live figures as open pages have them.

use std::io::Read as _;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::http::{Client, attributes, escape};
use crate::bench::process;

/// Most viewers that the daemon lets in at once.
pub(super) const MOST: usize = 64;

/// Open streams. They are closed when dropped.
pub(super) struct Viewers {
    child: Child,
    number: usize,
    events: Arc<AtomicUsize>,
    reader: Option<JoinHandle<()>>,
    since: Instant,
}

/// Processor time of viewers.
#[derive(Debug, Serialize)]
pub(super) struct Watched {
    pub(super) path: String,
    pub(super) viewers: usize,
    /// Share of a core for each viewer, in percent.
    pub(super) percent: f64,
    /// Events that each viewer had in a second.
    pub(super) events: f64,
}

/// Opens streams as the page at `path` would, for the objects that it shows, and waits until all
/// have figures.
pub(super) fn watch(client: &Client, path: &str, number: usize) -> Result<Viewers, String> {
    let page = client.text(path)?;
    let stream = attributes(&page, "data-stream").into_iter().next();
    let stream = stream.ok_or_else(|| format!("{path} names no stream"))?;
    let objects = attributes(&page, "data-id");
    let ids = match objects.is_empty() {
        true => String::new(),
        false => format!("&ids={}", escape(&objects.join("\n"))),
    };
    let mut command = client.curl();
    command.args(["--no-buffer", "--parallel", "--parallel-immediate"]);
    command.args(["--parallel-max", &number.to_string()]);
    for _ in 0..number {
        command.arg(format!("{}{stream}{ids}", client.origin));
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("cannot run curl: {e}"))?;
    let mut pipe = child.stdout.take().ok_or("curl has no output")?;
    let events = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&events);
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = pipe.read(&mut buffer) {
            // A word that lies across two reads is not counted. There are few, and the bound for
            // the number of events allows for them.
            let text = String::from_utf8_lossy(&buffer[..read]);
            counted.fetch_add(text.matches("event: rows").count(), Ordering::Relaxed);
        }
    });
    let mut viewers = Viewers {
        child,
        number,
        events,
        reader: Some(reader),
        since: Instant::now(),
    };
    let patience = Instant::now() + Duration::from_secs(20);
    while viewers.events.load(Ordering::Relaxed) < number {
        if Instant::now() > patience {
            return Err(format!("{number} viewers of {path} did not get figures"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    viewers.begin();
    Ok(viewers)
}

impl Viewers {
    /// Counts events from now on.
    fn begin(&mut self) {
        self.since = Instant::now();
        self.events.store(0, Ordering::Relaxed);
    }

    /// Closes the streams, and returns the events that each viewer had in a second.
    pub(super) fn end(self) -> f64 {
        let events = self.events.load(Ordering::Relaxed) as f64;
        events / self.number as f64 / self.since.elapsed().as_secs_f64()
    }
}

impl Drop for Viewers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

/// Measures the daemon's processor time for viewers of a page, beside the time without them.
pub(super) fn cost(client: &Client, path: &str, pid: u32, seconds: f64) -> Result<Watched, String> {
    let alone = share(pid, seconds)?;
    let viewers = watch(client, path, MOST)?;
    let viewed = share(pid, seconds)?;
    Ok(Watched {
        path: path.to_owned(),
        viewers: MOST,
        events: viewers.end(),
        percent: (viewed - alone) * 100.0 / MOST as f64,
    })
}

/// Returns the process's share of a core over a while. Threads that answer requests come and go, so
/// what ended threads used counts as well.
fn share(pid: u32, seconds: f64) -> Result<f64, String> {
    let (start, before) = (Instant::now(), process::ticks_s(pid)?);
    std::thread::sleep(Duration::from_secs_f64(seconds));
    Ok((process::ticks_s(pid)? - before) / start.elapsed().as_secs_f64())
}
