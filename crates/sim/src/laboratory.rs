//! The crash laboratory. It runs histories against a [`Subject`], cuts the power, opens the subject
//! again, and compares everything that is read with the [model](crate::model).
//!
//! [`run`] runs one history, and [`attack`] those of many seeds. A history that fails is shortened
//! ([`shrink`]) and reported with the steps that led to the failure. [`trace`] tells every step of
//! a history.

mod family;
mod lineage;
pub(crate) mod machine;
pub(crate) mod panics;
mod pending;
mod report;
mod runner;
mod shrink;
mod twins;

pub use family::{Defeat, Summary, attack};
pub(crate) use machine::prove;
pub use report::{Attempts, CutInto, Failure, FailureKind, Report};
pub use shrink::shrink;

use crate::history::History;
use crate::subject::Subject;
use runner::Runner;

/// Runs a history to its end. Then the run waits for all operations, and cuts the power twice more.
///
/// # Errors
/// The first failure. A panic of the subject is one.
pub fn run<S: Subject>(setup: &S::Setup, history: &History) -> Result<Report, Failure> {
    run_told::<S>(setup, history, &mut None)
}

/// Runs a history and tells all that happens, line by line.
pub fn trace<S: Subject>(
    setup: &S::Setup,
    history: &History,
) -> (Result<Report, Failure>, Vec<String>) {
    let mut lines = Some(Vec::new());
    let result = run_told::<S>(setup, history, &mut lines);
    (result, lines.unwrap_or_default())
}

fn run_told<S: Subject>(
    setup: &S::Setup,
    history: &History,
    lines: &mut Option<Vec<String>>,
) -> Result<Report, Failure> {
    let mut runner = Runner::<S>::new(setup, history, lines);
    let kind = match panics::caught(|| runner.run()) {
        Ok(Ok(())) => return Ok(runner.report()),
        Ok(Err(kind)) => kind,
        Err(words) => FailureKind::Panicked(words),
    };
    Err(runner.failure(kind))
}
