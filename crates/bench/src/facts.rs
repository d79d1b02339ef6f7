//! Facts of a measurement, by name: what was run on what. Figures are worth nothing without them.
//! Two results differ first in what they were measured on, and then in their figures.

use serde::Serialize;

use super::parameters::{Pace, Parameters};
use super::reached::{Reached, Session};
use super::report::units;
use super::results::Results;
use model::date::utc_minute;
use model::quantity::format_size;

/// Facts that belong to each measurement alone, and count as no difference.
const OWN: [&str; 3] = ["begun", "runs", "seed"];

/// Fact in which two results differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Name of the fact.
    pub fact: &'static str,
    /// Value in the first result.
    pub a: String,
    /// Value in the second result.
    pub b: String,
}

/// Lists the facts in which two results differ. Parts of lists that both have are left out.
pub fn differences(a: &Results, b: &Results) -> Vec<Difference> {
    let facts = FACTS.iter().filter(|(fact, _)| !OWN.contains(fact));
    let differences = facts.map(|(fact, of)| {
        let (a, b) = (of(a), of(b));
        let only = |own: &str, other: &str| {
            let others: Vec<&str> = other.split(", ").collect();
            or_none(
                own.split(", ")
                    .filter(|word| !others.contains(word))
                    .map(str::to_owned),
            )
        };
        Difference {
            fact,
            a: only(&a, &b),
            b: only(&b, &a),
        }
    });
    differences
        .filter(|difference| difference.a != difference.b)
        .collect()
}

/// A fact: its name, and the function that reads it from results.
pub type Fact = (&'static str, fn(&Results) -> String);

/// Every fact, in the order in which users read them.
pub const FACTS: &[Fact] = &[
    ("target", |s| s.target.name.clone()),
    ("size", |s| match s.target.len {
        0 => "not known".to_owned(),
        len => format!("{} ({} bytes)", format_size(len), units::count(len)),
    }),
    ("blocks", |s| {
        match (s.target.granularity, s.target.physical) {
            (0, _) => "not known".to_owned(),
            (granularity, physical) => format!("{granularity} bytes, {physical} beneath"),
        }
    }),
    ("thin", |s| yes(s.target.thin)),
    ("volatile write cache", |s| yes(s.target.volatile_cache)),
    ("unit", |s| match &s.target.unit {
        None => "–".to_owned(),
        Some(unit) => format!(
            "{} {} {} ({})",
            unit.vendor, unit.product, unit.revision, unit.name
        ),
    }),
    ("options", |s| {
        let options = s.target.options.iter();
        or_none(options.map(|(name, value)| format!("{name}={value}")))
    }),
    ("sessions", |s| {
        reached(s, |reached| {
            let sessions = reached.sessions.iter().map(session).collect();
            vec![or_none(counted(sessions).into_iter())]
        })
    }),
    ("negotiated", |s| {
        reached(s, |reached| {
            let sessions = reached.sessions.iter();
            let keys = sessions.flat_map(|session| &session.keys);
            keys.map(|(name, value)| format!("{name}={value}"))
                .collect()
        })
    }),
    ("path selection", |s| {
        reached(s, |reached| vec![reached.psp.clone()])
    }),
    ("queue depth", |s| {
        reached(s, |reached| vec![reached.queue_depth.to_string()])
    }),
    ("measured from", |s| or_unknown(&s.machine.host)),
    ("processor", |s| match s.machine.cores {
        0 => "not known".to_owned(),
        cores => format!("{cores} × {}", or_unknown(&s.machine.processor)),
    }),
    ("memory", |s| match s.machine.memory {
        0 => "not known".to_owned(),
        memory => format_size(memory),
    }),
    ("system", |s| or_unknown(&s.machine.kernel)),
    ("measured with", |s| or_unknown(&s.tool)),
    ("begun", |s| match s.started_unix_s {
        0 => "not known".to_owned(),
        unix_s => utc_minute(unix_s),
    }),
    ("runs", |s| {
        let rounds = s.runs.iter().map(|run| run.round + 1).max().unwrap_or(0);
        format!("{} in {rounds} rounds", s.runs.len())
    }),
    ("time", |s| {
        each(s, |p| match p.run_time_ms {
            0 => "until the amount was transferred".to_owned(),
            _ => format!(
                "{} s measured after {} s",
                seconds(p.run_time_ms),
                seconds(p.ramp_up_ms)
            ),
        })
    }),
    ("accesses in flight", |s| {
        each(s, |p| format!("{} per worker", p.outstanding))
    }),
    ("workers", |s| each(s, |p| p.workers.to_string())),
    ("working set", |s| each(s, working_set)),
    ("bytes written", |s| each(s, |p| p.data.to_string())),
    ("pace", |s| each(s, pace)),
    ("largest I/O", |s| {
        each(s, |p| {
            p.max_io.map_or("not limited".to_owned(), |size| {
                format_size(u64::from(size))
            })
        })
    }),
    ("filled before", |s| each(s, |p| yes(p.fill))),
    ("verified", |s| each(s, |p| yes(p.verify))),
    ("seed", |s| each(s, |p| p.seed.to_string())),
];

fn yes(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() {
        "not known".to_owned()
    } else {
        text.to_owned()
    }
}

fn seconds(ms: u64) -> String {
    units::number(ms as f64 / 1000.0)
}

/// Returns the values of a parameter over all runs, each once.
fn each(results: &Results, of: impl Fn(&Parameters) -> String) -> String {
    let mut values: Vec<String> = Vec::new();
    for run in &results.runs {
        let value = of(&run.parameters);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    match values.len() {
        0 => "–".to_owned(),
        1..=8 => values.join(", "),
        more => format!("{more} values from {} to {}", values[0], values[more - 1]),
    }
}

fn working_set(parameters: &Parameters) -> String {
    let len = parameters.working_set.map_or("all".to_owned(), format_size);
    match parameters.start {
        0 => len,
        start => format!("{len} from {} on", format_size(start)),
    }
}

fn pace(parameters: &Parameters) -> String {
    match parameters.pace {
        Pace::Closed => "closed loop: the next access starts when one has ended".to_owned(),
        Pace::Limited(iops) => format!("closed loop, at most {} per second", units::number(iops)),
        Pace::Open(iops) => format!("open loop: {} per second", units::number(iops)),
    }
}

/// Returns the values of a fact about how a unit was reached over all runs, each once.
fn reached(results: &Results, of: impl Fn(&Reached) -> Vec<String>) -> String {
    let mut values: Vec<String> = Vec::new();
    for reached in results.runs.iter().filter_map(|run| run.reached.as_ref()) {
        for value in of(reached) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    or_none(values.into_iter())
}

fn session(session: &Session) -> String {
    // A connection starts from a different port each time.
    let from = session
        .source
        .as_deref()
        .and_then(|source| source.rsplit_once(':'));
    let from = from.map_or(String::new(), |(address, _)| format!(" from {address}"));
    let portal = session.redirected_to.as_ref().unwrap_or(&session.portal);
    match (session.up, &session.reason) {
        (true, _) => format!("{portal}{from}"),
        (false, Some(reason)) => format!("{portal} DOWN ({reason})"),
        (false, None) => format!("{portal} DOWN"),
    }
}

/// Returns each text once, with its count.
fn counted(all: Vec<String>) -> Vec<String> {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for one in all {
        match counted.iter_mut().find(|(known, _)| *known == one) {
            Some((_, count)) => *count += 1,
            None => counted.push((one, 1)),
        }
    }
    let words = counted.into_iter();
    words
        .map(|(one, count)| match count {
            1 => one,
            _ => format!("{count} × {one}"),
        })
        .collect()
}

fn or_none(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.collect();
    match words.is_empty() {
        true => "–".to_owned(),
        false => words.join(", "),
    }
}
