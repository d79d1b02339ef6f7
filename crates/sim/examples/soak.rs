//! Attacks the store's pool with the histories of many seeds, or replays one.
//!
//! Seeds from 4294967296 on are hard, those from 1099511627776 on harder. From 17592186044416 on,
//! lanes read and write beside the engine, too. The family `receive` is
//! of streams that are received. Families that begin with `hosts-` are of two hosts at one pool,
//! those with `san-` of whole storage networks. These families can only be run, those with `san-`
//! also replayed.
//!
//! ```text
//! soak [--family NAME] [--first SEED] [--histories N] [--minutes N] [--failures N] [--turns time]
//! soak --family NAME --seed SEED          replays one history and tells all that happens
//! soak --family NAME --shorten SEED       and finds a shorter one that fails as well
//! ```
//!
//! Attacks take turns, history by history. With `--turns time`, each gets the same time, so that
//! the attacks with short histories run more of them.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use sim::hosts::{self, Trouble};
use sim::laboratory::Summary;
use sim::pool::families::{FAMILIES, Family};
use sim::pool::receive;
use sim::san;

/// Name of the attack with received streams, which is not a family.
const RECEIVE: &str = "receive";
/// Interval at which a long run reports its progress.
const TELL_EVERY: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Arguments {
    family: Option<Attack>,
    first: u64,
    histories: Option<u64>,
    minutes: Option<u64>,
    /// Number of failures after which the run ends.
    failures: Option<u64>,
    seed: Option<u64>,
    shorten: Option<u64>,
    /// Whether all attacks get the same time.
    shares_time: bool,
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
                let names: Vec<&str> = attacks().into_iter().map(name).collect();
                let unknown = || format!("'{value}' is no family: there are {}", names.join(", "));
                let family = attacks().into_iter().find(|of| name(*of) == value);
                arguments.family = Some(family.ok_or_else(unknown)?);
            }
            "--first" => arguments.first = number()?,
            "--histories" => arguments.histories = Some(number()?),
            "--minutes" => arguments.minutes = Some(number()?),
            "--failures" => arguments.failures = Some(number()?),
            "--seed" => arguments.seed = Some(number()?),
            "--shorten" => arguments.shorten = Some(number()?),
            "--turns" if value == "time" => arguments.shares_time = true,
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
    let family = match (arguments.family, arguments.seed.or(arguments.shorten)) {
        (Some(Attack::Pool(family)), _) => family,
        (Some(Attack::San(family)), Some(seed)) => {
            // A world that breaks a rule panics.
            println!("{}", san::trace(seed, family.climate()));
            return ExitCode::SUCCESS;
        }
        (Some(attack), Some(seed)) => return run_one(attack, seed),
        _ => Family::PowerCuts,
    };
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

/// An attack that is run with many seeds.
#[derive(Clone, Copy)]
enum Attack {
    Pool(Family),
    Receive,
    Hosts(Trouble),
    San(san::Family),
}

/// Returns all attacks.
fn attacks() -> Vec<Attack> {
    let pools = FAMILIES.into_iter().map(Attack::Pool);
    let hosts = Trouble::ALL.into_iter().map(Attack::Hosts);
    let networks = san::Family::ALL.into_iter().map(Attack::San);
    let all = pools.chain([Attack::Receive]).chain(hosts);
    all.chain(networks).collect()
}

fn name(attack: Attack) -> &'static str {
    match attack {
        Attack::Pool(family) => family.name(),
        Attack::Receive => RECEIVE,
        Attack::Hosts(trouble) => trouble.name(),
        Attack::San(family) => family.name(),
    }
}

/// Runs one seed of an attack that cannot be replayed step by step.
fn run_one(attack: Attack, seed: u64) -> ExitCode {
    let mut totals = Totals::default();
    match totals.run(attack, seed) {
        Ok(()) => {
            totals.tell(attack, &format!("{seed}"));
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Totals of an attack.
#[derive(Default)]
struct Totals {
    histories: u64,
    time: Duration,
    pool: Summary,
    receive: receive::Report,
    hosts: hosts::Tally,
    network: san::Report,
}

impl Totals {
    fn run(&mut self, attack: Attack, seed: u64) -> Result<(), String> {
        let begun = Instant::now();
        let result = self.attack(attack, seed);
        self.histories += 1;
        self.time += begun.elapsed();
        result
    }

    fn attack(&mut self, attack: Attack, seed: u64) -> Result<(), String> {
        match attack {
            Attack::Pool(family) => family
                .run(seed)
                .map(|report| self.pool.add(&report))
                .map_err(|failure| failure.to_string()),
            Attack::Receive => receive::run(seed).map(|report| self.receive += report),
            Attack::Hosts(trouble) => hosts::run(trouble, seed)
                .map(|tally| self.hosts += tally)
                .map_err(|broken| broken.to_string()),
            Attack::San(family) => family.run(seed).map(|report| self.network += report),
        }
    }

    fn tell(&self, attack: Attack, seeds: &str) {
        let name = name(attack);
        match attack {
            Attack::Pool(_) => {
                println!("{name}, seeds {seeds}: {}", self.pool);
                println!("  {:?}", self.pool.total.struck);
            }
            Attack::Receive => println!("{name}, seeds {seeds}: {}", self.receive),
            Attack::Hosts(_) => println!("{name}, seeds {seeds}: {}", self.hosts),
            Attack::San(_) => println!("{name}, seeds {seeds}: {}", self.network),
        }
    }
}

/// Runs the attacks in turn, and goes on after histories that fail.
fn soak(arguments: &Arguments) -> ExitCode {
    let attacks = match arguments.family {
        Some(only) => vec![only],
        None => attacks(),
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
    let mut totals: Vec<Totals> = attacks.iter().map(|_| Totals::default()).collect();
    let mut failed: Vec<(Attack, u64)> = Vec::new();
    let mut done = 0;
    let mut told = begun;
    while done < most && end.is_none_or(|end| begun.elapsed() < end) && failed.len() < most_failures
    {
        // The attack whose turn it is has had the least.
        let had = |of: &Totals| match arguments.shares_time {
            true => (of.time, 0),
            false => (Duration::ZERO, of.histories),
        };
        let turn = (0..attacks.len()).min_by_key(|at| had(&totals[*at]));
        let turn = turn.unwrap_or(0);
        let seed = arguments.first + totals[turn].histories;
        if let Err(failure) = totals[turn].run(attacks[turn], seed) {
            println!("{}: {failure}", name(attacks[turn]));
            failed.push((attacks[turn], seed));
        }
        done += 1;
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            println!("{done} histories, {} failed", failed.len());
        }
    }
    let first = arguments.first;
    for (attack, totals) in attacks.iter().zip(&totals) {
        totals.tell(*attack, &format!("{first}..{}", first + totals.histories));
    }
    let per_s = done as f64 / begun.elapsed().as_secs_f64();
    println!("{done} histories, {per_s:.0}/s, {} failed", failed.len());
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
