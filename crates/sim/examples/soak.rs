//! Attacks the store's pool with the histories of many seeds, or replays one.
//!
//! Seeds from 4294967296 on are hard, those from 1099511627776 on harder. The family `receive` is of streams that are received; it can only be run.
//!
//! ```text
//! soak [--family NAME] [--first SEED] [--histories N] [--minutes N] [--failures N]
//! soak --family NAME --seed SEED          replays one history and tells all that happens
//! soak --family NAME --shorten SEED       and finds a shorter one that fails as well
//! ```

use std::process::ExitCode;
use std::time::{Duration, Instant};

use sim::laboratory::Summary;
use sim::pool::families::{FAMILIES, Family};
use sim::pool::receive;

/// The name of what is no family.
const RECEIVE: &str = "receive";
/// How often a long run says how far it is.
const TELL_EVERY: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Arguments {
    /// `None` inside are receives.
    family: Option<Attack>,
    first: u64,
    histories: Option<u64>,
    minutes: Option<u64>,
    /// Ends after so many.
    failures: Option<u64>,
    seed: Option<u64>,
    shorten: Option<u64>,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        let number = || {
            value
                .parse::<u64>()
                .map_err(|_| format!("{word}: '{value}' is no number"))
        };
        match word.as_str() {
            "--family" => {
                let mut all = FAMILIES.into_iter().map(Some).chain([None]);
                let names = FAMILIES.map(Family::name).join(", ");
                let unknown = || format!("'{value}' is no family: there are {names}, {RECEIVE}");
                arguments.family = Some(all.find(|of| name(*of) == value).ok_or_else(unknown)?);
            }
            "--first" => arguments.first = number()?,
            "--histories" => arguments.histories = Some(number()?),
            "--minutes" => arguments.minutes = Some(number()?),
            "--failures" => arguments.failures = Some(number()?),
            "--seed" => arguments.seed = Some(number()?),
            "--shorten" => arguments.shorten = Some(number()?),
            _ => return Err(format!("'{word}' is not known")),
        }
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("soak: {why}");
            return ExitCode::from(2);
        }
    };
    if let (Some(seed), Some(None)) = (arguments.seed.or(arguments.shorten), arguments.family) {
        return match receive::run(seed) {
            Ok(report) => {
                println!("{report}");
                ExitCode::SUCCESS
            }
            Err(failure) => {
                println!("{failure}");
                ExitCode::FAILURE
            }
        };
    }
    let family = arguments.family.flatten().unwrap_or(Family::PowerCuts);
    if let Some(seed) = arguments.seed {
        let (setup, _) = family.history(seed);
        println!("{setup:?}");
        let (result, lines) = family.trace(seed);
        println!("{}", lines.join("\n"));
        return match result {
            Ok(report) => {
                println!("{report:?}");
                ExitCode::SUCCESS
            }
            Err(failure) => {
                println!("{failure}");
                ExitCode::FAILURE
            }
        };
    }
    if let Some(seed) = arguments.shorten {
        return match family.attack(seed) {
            Ok(summary) => {
                println!("{summary}");
                ExitCode::SUCCESS
            }
            Err(defeat) => {
                println!("{defeat}");
                ExitCode::FAILURE
            }
        };
    }
    soak(&arguments)
}

/// A family, or receives.
type Attack = Option<Family>;

fn name(attack: Attack) -> &'static str {
    attack.map_or(RECEIVE, Family::name)
}

/// Takes the families in turn, and goes on behind histories that fail.
fn soak(arguments: &Arguments) -> ExitCode {
    let all = FAMILIES.into_iter().map(Some).chain([None]);
    let attacks: Vec<Attack> = match arguments.family {
        Some(only) => vec![only],
        None => all.collect(),
    };
    let begun = Instant::now();
    let end = arguments
        .minutes
        .map(|minutes| Duration::from_secs(minutes * 60));
    let most = arguments.histories.unwrap_or(match end {
        Some(_) => u64::MAX,
        None => 10_000,
    });
    let most_failures = arguments.failures.unwrap_or(20) as usize;
    let mut summaries = vec![Summary::default(); attacks.len()];
    let mut received = receive::Report::default();
    let mut failed: Vec<(Attack, u64)> = Vec::new();
    let mut done = 0;
    let mut seed = arguments.first;
    let mut told = begun;
    'all: loop {
        for (attack, summary) in attacks.iter().zip(&mut summaries) {
            if done >= most
                || end.is_some_and(|end| begun.elapsed() >= end)
                || failed.len() >= most_failures
            {
                break 'all;
            }
            let outcome = match attack {
                Some(family) => family
                    .run(seed)
                    .map(|report| summary.add(&report))
                    .map_err(|failure| failure.to_string()),
                None => receive::run(seed).map(|report| received += report),
            };
            if let Err(failure) = outcome {
                println!("{}: {failure}", name(*attack));
                failed.push((*attack, seed));
            }
            done += 1;
        }
        seed += 1;
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            println!(
                "{done} histories up to seed {seed}, {} failed",
                failed.len()
            );
        }
    }
    for (attack, summary) in attacks.iter().zip(&summaries) {
        let (name, first) = (name(*attack), arguments.first);
        match attack {
            Some(_) => {
                println!("{name}, seeds {first}..{seed}: {summary}");
                println!("  {:?}", summary.total.struck);
            }
            None => println!("{name}, seeds {first}..{seed}: {received}"),
        }
    }
    let per_s = done as f64 / begun.elapsed().as_secs_f64();
    println!("{done} histories, {per_s:.0}/s, {} failed", failed.len());
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
