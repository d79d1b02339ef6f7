//! Attacks the store's pool with the histories of many seeds, or replays one.
//!
//! ```text
//! soak [--family NAME] [--first SEED] [--histories N] [--minutes N]
//! soak --family NAME --seed SEED          replays one history and tells all that happens
//! soak --family NAME --shorten SEED       and finds a shorter one that fails as well
//! ```

use std::process::ExitCode;
use std::time::{Duration, Instant};

use sim::laboratory::Summary;
use sim::pool::families::{FAMILIES, Family};

/// How often a long run says how far it is.
const TELL_EVERY: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Arguments {
    family: Option<Family>,
    first: u64,
    histories: Option<u64>,
    minutes: Option<u64>,
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
                let named = FAMILIES.into_iter().find(|family| family.name() == value);
                let names = FAMILIES.map(Family::name).join(", ");
                let unknown = || format!("'{value}' is no family: there are {names}");
                arguments.family = Some(named.ok_or_else(unknown)?);
            }
            "--first" => arguments.first = number()?,
            "--histories" => arguments.histories = Some(number()?),
            "--minutes" => arguments.minutes = Some(number()?),
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
    if let Some(seed) = arguments.seed {
        let family = arguments.family.unwrap_or(Family::PowerCuts);
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
        let family = arguments.family.unwrap_or(Family::PowerCuts);
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

/// Takes the families in turn, and goes on behind histories that fail.
fn soak(arguments: &Arguments) -> ExitCode {
    let families = arguments
        .family
        .map_or(FAMILIES.to_vec(), |family| vec![family]);
    let begun = Instant::now();
    let end = arguments
        .minutes
        .map(|minutes| Duration::from_secs(minutes * 60));
    let most = arguments.histories.unwrap_or(match end {
        Some(_) => u64::MAX,
        None => 10_000,
    });
    let mut summaries = vec![Summary::default(); families.len()];
    let mut failed: Vec<(Family, u64)> = Vec::new();
    let mut done = 0;
    let mut seed = arguments.first;
    let mut told = begun;
    'all: loop {
        for (family, summary) in families.iter().zip(&mut summaries) {
            if done >= most || end.is_some_and(|end| begun.elapsed() >= end) || failed.len() >= 20 {
                break 'all;
            }
            match family.run(seed) {
                Ok(report) => summary.add(&report),
                Err(failure) => {
                    println!("{}: {failure}", family.name());
                    failed.push((*family, seed));
                }
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
    for (family, summary) in families.iter().zip(&summaries) {
        println!(
            "{}, seeds {}..{seed}: {summary}",
            family.name(),
            arguments.first
        );
        println!("  {:?}", summary.total.struck);
    }
    let per_s = done as f64 / begun.elapsed().as_secs_f64();
    println!("{done} histories, {per_s:.0}/s, {} failed", failed.len());
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
