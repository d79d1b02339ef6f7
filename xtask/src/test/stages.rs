//! Stages of a run, and the table of them.

use std::time::{Duration, Instant};

/// Result of a stage.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    Passed,
    Failed(String),
    LeftOut(&'static str),
}

impl From<Result<(), String>> for Verdict {
    fn from(result: Result<(), String>) -> Self {
        match result {
            Ok(()) => Self::Passed,
            Err(message) => Self::Failed(message),
        }
    }
}

impl Verdict {
    /// Joins two verdicts: both must pass, and each failure is reported.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Failed(one), Self::Failed(other)) => Self::Failed(format!("{one}; {other}")),
            (Self::Passed, other) => other,
            (one, _) => one,
        }
    }
}

#[derive(Debug)]
struct TestStage {
    name: &'static str,
    time: Duration,
    /// Time that processors spent on the programs of the stage. `None` if they ran beside those of
    /// the stage before, which has the time of both.
    processor: Option<Duration>,
    verdict: Verdict,
}

/// Stages that have ended.
#[derive(Debug)]
pub(super) struct Stages {
    start: Instant,
    ended: Vec<TestStage>,
}

impl Stages {
    /// Begins a run.
    pub(super) fn begin() -> Self {
        Self {
            start: Instant::now(),
            ended: Vec::new(),
        }
    }

    /// Runs a stage. Returns whether it passed.
    pub(super) fn run(&mut self, name: &'static str, work: impl FnOnce() -> Verdict) -> bool {
        println!("\n=== {name}");
        let (start, processor) = (Instant::now(), processor_time());
        let verdict = work();
        let used = processor_time().saturating_sub(processor);
        self.end(name, start.elapsed(), Some(used), verdict)
    }

    /// Runs two stages at once. `beside` waits most of its time, and must not print.
    pub(super) fn run_both(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Verdict,
        name_beside: &'static str,
        beside: impl FnOnce() -> Verdict + Send,
    ) {
        println!("\n=== {name}, and beside it: {name_beside}");
        let (start, processor) = (Instant::now(), processor_time());
        let (verdict, time, verdict_beside, time_beside) = std::thread::scope(|scope| {
            let beside = scope.spawn(|| (beside(), start.elapsed()));
            let (verdict, time) = (work(), start.elapsed());
            let panicked = |_| (Verdict::Failed("it panicked".into()), start.elapsed());
            let (verdict_beside, time_beside) = beside.join().unwrap_or_else(panicked);
            (verdict, time, verdict_beside, time_beside)
        });
        let used = processor_time().saturating_sub(processor);
        self.end(name, time, Some(used), verdict);
        self.end(name_beside, time_beside, None, verdict_beside);
    }

    /// Notes a stage whose work another stage did.
    pub(super) fn note(&mut self, name: &'static str, verdict: Verdict) {
        self.end(name, Duration::ZERO, None, verdict);
    }

    fn end(
        &mut self,
        name: &'static str,
        time: Duration,
        processor: Option<Duration>,
        verdict: Verdict,
    ) -> bool {
        let passed = matches!(verdict, Verdict::Passed);
        if let Verdict::Failed(message) = &verdict {
            eprintln!("xtask test: {name} failed: {message}");
        }
        self.ended.push(TestStage {
            name,
            time,
            processor,
            verdict,
        });
        passed
    }

    /// Prints the table.
    ///
    /// # Errors
    /// A stage failed.
    pub(super) fn report(&self) -> Result<(), String> {
        println!(
            "\n{:<22} {:<8} {:>8} {:>11}",
            "stage", "result", "time", "processor"
        );
        let mut failed = Vec::new();
        for stage in &self.ended {
            let (word, reason) = match &stage.verdict {
                Verdict::Passed => ("passed", ""),
                Verdict::LeftOut(reason) => ("left out", *reason),
                Verdict::Failed(message) => {
                    failed.push(format!("{}: {message}", stage.name));
                    ("FAILED", "")
                }
            };
            line(stage.name, word, stage.time, stage.processor, reason);
        }
        line("all", "", self.start.elapsed(), Some(processor_time()), "");
        if failed.is_empty() {
            Ok(())
        } else {
            // Readers who see only the end of a long log find each failure and its reason here.
            Err(format!("failed\n{}", failed.join("\n")))
        }
    }
}

fn line(name: &str, word: &str, time: Duration, processor: Option<Duration>, reason: &str) {
    let processor = match processor {
        Some(processor) => format!("{:.1} s", processor.as_secs_f64()),
        None => "-".to_owned(),
    };
    let time = time.as_secs_f64();
    println!("{name:<22} {word:<8} {time:>6.1} s {processor:>11}  {reason}");
}

/// Returns the time that processors have spent on programs that this one started and that have
/// ended, or zero if the system does not say.
fn processor_time() -> Duration {
    /// Clock ticks in a second, as the kernel reports them on every common architecture.
    const TICKS: u64 = 100;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in parentheses, may hold blanks. The fields behind it are numbers.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    // Fields 16 and 17 of the line (proc(5)): the children's time in user mode and in the kernel.
    let times = fields.split_whitespace().skip(13).take(2);
    let ticks: u64 = times.filter_map(|time| time.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS)
}
