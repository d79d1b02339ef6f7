//! Live figures on a terminal: one line that is overwritten, and removed when the run is over.

use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use bench::esxtop_queue::EsxtopQueue;
use bench::measure::window::Second;
use bench::run::measure::{Phase, Watch};
use model::quantity::format_size;

/// Display of a run's progress. It shows nothing if nobody looks.
pub(super) struct Progress<'a> {
    out: &'a mut dyn Write,
    shown: bool,
    is_quiet: bool,
    /// Title of the current run.
    title: String,
    phase: Phase,
    bytes: Option<u64>,
    time: Option<Duration>,
    moved: u64,
    queue: Option<EsxtopQueue>,
}

impl<'a> Progress<'a> {
    /// Returns progress on `out`, which is the error output of this process or stands for it in a
    /// test.
    pub(super) fn new(out: &'a mut dyn Write, quiet: bool) -> Self {
        Self {
            out,
            is_quiet: quiet,
            shown: !quiet && std::io::stderr().is_terminal(),
            title: String::new(),
            phase: Phase::Measure,
            bytes: None,
            time: None,
            moved: 0,
            queue: None,
        }
    }

    /// Sets the title of the next run.
    pub(super) fn title(&mut self, title: String) {
        self.title = title;
    }

    /// Removes the line.
    pub(super) fn clear(&mut self) {
        self.line("");
    }

    fn line(&mut self, text: &str) {
        if self.shown {
            // If the progress cannot be shown, the results still are.
            let _ = write!(self.out, "\r\x1b[K{text}");
            let _ = self.out.flush();
        }
    }

    fn state(&self, second: Option<&Second>) -> String {
        let word = match self.phase {
            Phase::Fill => "filling",
            Phase::RampUp => "ramping up",
            Phase::Measure => "measuring",
            Phase::ReadBack => "reading back",
        };
        let done = second.map_or(0, |second| u64::from(second.second) + 1);
        let part = match (self.bytes, self.time) {
            (Some(bytes), _) => format!("{} of {}", format_size(self.moved), format_size(bytes)),
            (None, Some(time)) => format!("{done} of {} s", time.as_secs_f64()),
            (None, None) => format!("{done} s"),
        };
        let left = match (self.bytes, self.moved) {
            (Some(bytes), moved) if moved > 0 && moved < bytes => {
                let left = (bytes - moved) as f64 * done as f64 / moved as f64;
                format!(", {left:.0} s left")
            }
            _ => String::new(),
        };
        format!("{}: {word}, {part}{left}", self.title)
    }
}

impl Watch for Progress<'_> {
    fn phase(&mut self, phase: Phase, bytes: Option<u64>, time: Option<Duration>) {
        (self.phase, self.bytes, self.time, self.moved) = (phase, bytes, time, 0);
        let state = self.state(None);
        self.line(&state);
    }

    fn waits_to_end(&mut self) {
        if self.is_quiet {
            return;
        }
        self.clear();
        // If the message cannot be shown, the results still are.
        let _ = writeln!(
            self.out,
            "ending: the run waits a short time for the accesses in flight; a second signal ends it at once, \
             without figures"
        );
    }

    fn queue(&mut self, queue: EsxtopQueue) {
        self.queue = Some(queue);
    }

    fn second(&mut self, second: &Second) {
        let bytes = second.read_bytes + second.written_bytes;
        self.moved += bytes;
        let errors = match second.errors {
            0 => String::new(),
            errors => format!("  {errors} ERRORS"),
        };
        let queue = self.queue.take().map_or_else(String::new, |queue| {
            let (used, load) = (queue.used_percent, queue.load);
            format!("  %USD {used:.0}  LOAD {load:.2}")
        });
        let line = format!(
            "{}  {} IOPS  {:.1} MB/s  mean {:.2} ms  p99 {:.2} ms  max {:.1} ms{queue}{errors}",
            self.state(Some(second)),
            second.reads + second.writes,
            bytes as f64 / 1e6,
            second.mean_ns / 1e6,
            second.p99_ns as f64 / 1e6,
            second.max_ns as f64 / 1e6,
        );
        self.line(&line);
    }
}
