//! Figures of a benchmark under way, as pages show them at first and as the stream of live figures
//! writes them.

use benchmarks::{BenchmarkState, BenchmarkView, ProgressView};
use serde_json::{Value, json};

use crate::format::{NONE, at, count, duration, mib};
use crate::mark::State;

/// Numbers of the places.
pub(crate) mod place {
    /// State of the benchmark.
    pub(crate) const STATE: usize = 0;
    /// Measurement under way.
    pub(crate) const NOW: usize = 1;
    /// Accesses of the last second.
    pub(crate) const IOPS: usize = 2;
    /// MiB of the last second.
    pub(crate) const BYTES: usize = 3;
    /// Mean latency of the last second.
    pub(crate) const MEAN: usize = 4;
    /// 99th percentile of the last second.
    pub(crate) const P99: usize = 5;
    /// Time that is left.
    pub(crate) const LEFT: usize = 6;
    /// Link to the results, once they are there.
    pub(crate) const RESULTS: usize = 7;
}

/// Returns the identity of a benchmark in streams.
pub(crate) fn stream_id(id: u64) -> String {
    format!("b:{id}")
}

/// Returns the page of a benchmark.
pub(crate) fn page(id: u64) -> String {
    at("/bench", &[&id.to_string()])
}

/// Returns the state for people.
pub(crate) fn state(view: &BenchmarkView) -> State {
    match view.state {
        BenchmarkState::Running | BenchmarkState::Finished => State::Good,
        BenchmarkState::Stopped => State::Quiet,
        BenchmarkState::Interrupted => State::Warn,
        BenchmarkState::Failed => State::Bad,
    }
}

/// Returns the measurement under way in words.
fn now(view: &BenchmarkView, progress: &ProgressView) -> String {
    let of = match progress.of_seconds {
        Some(of) => format!("{} of {of} s", progress.seconds.min(of.ceil() as u64)),
        None => format!("{} s", progress.seconds),
    };
    format!(
        "{}: {}, {of}; measurement {} of {}",
        progress.workload,
        progress.phase,
        progress.run.max(1),
        view.of_runs
    )
}

/// Returns the texts of all places.
pub(crate) fn texts(view: &BenchmarkView) -> [String; 8] {
    let state = state(view);
    let word = format!("{} {}", state.mark(), view.state.as_str());
    let Some(progress) = &view.progress else {
        let none = || NONE.to_owned();
        let results = "Show the results".to_owned();
        let over = "It is over.".to_owned();
        return [word, over, none(), none(), none(), none(), none(), results];
    };
    let ms = |ms: f64| match progress.iops {
        0 => NONE.to_owned(),
        _ => format!("{ms:.3}"),
    };
    [
        word,
        now(view, progress),
        count(progress.iops),
        mib(progress.bytes_per_s as f64),
        ms(progress.mean_ms),
        ms(progress.p99_ms),
        duration(progress.left_s),
        "The results come at the end".to_owned(),
    ]
}

/// Returns what the stream writes into the places.
pub(crate) fn values(view: &BenchmarkView) -> Vec<Value> {
    let mut values: Vec<Value> = texts(view).map(Value::String).into();
    let class = state(view).class();
    values[place::STATE] = json!({ "text": values[place::STATE], "class": class });
    if view.progress.is_none() {
        values[place::RESULTS] = json!({ "text": values[place::RESULTS], "href": page(view.id) });
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> BenchmarkView {
        BenchmarkView {
            id: 3,
            of_runs: 4,
            progress: Some(ProgressView {
                run: 2,
                workload: "4K".to_owned(),
                phase: "measuring".to_owned(),
                seconds: 11,
                of_seconds: Some(10.0),
                left_s: 65,
                iops: 1234,
                bytes_per_s: 1 << 20,
                mean_ms: 0.5,
                ..ProgressView::default()
            }),
            ..BenchmarkView::default()
        }
    }

    #[test]
    fn a_benchmark_under_way_tells_its_last_second() {
        let texts = texts(&running());
        assert_eq!(
            texts[place::NOW],
            "4K: measuring, 10 of 10 s; measurement 2 of 4"
        );
        assert_eq!(texts[place::IOPS], "1\u{202f}234");
        assert_eq!(
            (texts[place::BYTES].as_str(), texts[place::MEAN].as_str()),
            ("1.0", "0.500")
        );
        assert_eq!(texts[place::LEFT], "1m 5s");
        assert!(
            values(&running())[place::RESULTS].is_string(),
            "no link yet"
        );
    }

    #[test]
    fn one_that_is_over_leads_to_its_results() {
        let over = BenchmarkView {
            id: 3,
            state: BenchmarkState::Finished,
            ..BenchmarkView::default()
        };
        let values = values(&over);
        assert_eq!(values[place::RESULTS]["href"], "/bench/3");
        assert_eq!(values[place::STATE]["text"], "● finished");
        assert_eq!(
            values[place::IOPS],
            NONE,
            "a benchmark that is over has no last second"
        );
    }
}
