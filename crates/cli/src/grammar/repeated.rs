//! Words of verbs that report again and again: names, then the interval and the number of reports.

use std::time::{Duration, Instant};

use crate::{Done, Failure};
use model::Error;

/// Verb that reports again and again.
#[derive(Debug)]
pub(crate) struct Reporter {
    /// Object of a report, as in "a pool".
    pub(crate) object: &'static str,
    /// Event from which the first report counts, as in "the pool was opened".
    pub(crate) since: &'static str,
    /// Function that tells names of objects from numbers.
    pub(crate) is_name: fn(&str) -> bool,
    /// Shortest interval.
    pub(crate) shortest: Duration,
    /// Example of a command line.
    pub(crate) usage: &'static str,
}

/// Meaning of the words of a command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Objects that the report shows; all if none is named.
    pub(crate) names: Vec<String>,
    /// Time from report to report; `None` is one report alone.
    pub(crate) interval: Option<Duration>,
    /// Number of reports; `None` is without end.
    count: Option<u64>,
    /// Whether the report that counts from the beginning is left out.
    without_first: bool,
}

/// Longest interval in seconds: a year.
const LONGEST_S: f64 = 31_536_000.0;

impl Plan {
    /// Returns the plan of a verb that reports at once what it compares with, and then a row after
    /// each interval.
    pub(crate) fn rows(interval: Duration, count: Option<u64>) -> Self {
        Self {
            names: Vec::new(),
            interval: Some(interval),
            count,
            without_first: true,
        }
    }

    /// Makes reports as the plan says. `report` is called for each, also for one that is left out.
    /// It is given the number of reports that were shown before, or `None` if it shows nothing.
    pub(crate) fn follow(&self, mut report: impl FnMut(Option<u64>) -> Done) -> Done {
        let (mut due, mut shown) = (Instant::now(), 0);
        for number in 0_u64.. {
            let is_shown = number > 0 || !self.without_first;
            report(is_shown.then_some(shown))?;
            shown += u64::from(is_shown);
            let Some(interval) = self.interval.filter(|_| self.count != Some(shown)) else {
                break;
            };
            // The time that a report takes does not delay the next one.
            due = (due + interval).max(Instant::now());
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok::<(), Failure>(())
    }
}

impl Reporter {
    /// Reads the words: names, then the interval and the number of reports.
    ///
    /// # Errors
    /// A word is no name, or no number where one is expected, or nothing would be left to report.
    pub(crate) fn plan(&self, words: &[String], without_first: bool) -> Result<Plan, Error> {
        let usage = self.usage;
        let names = words.iter().take_while(|word| (self.is_name)(word));
        let (names, numbers) = words.split_at(names.count());
        if let Some(late) = numbers.iter().find(|word| (self.is_name)(word)) {
            let message = format!("{late} comes after a number");
            let next = format!("put names first, then the interval and the count: {usage}");
            return Err(Error::invalid(message, next));
        }
        let (interval, count) = match numbers {
            [] => (None, Some(1)),
            [interval] => (Some(self.seconds(interval)?), None),
            [interval, count] => (Some(self.seconds(interval)?), Some(self.reports(count)?)),
            [_, _, third, ..] => {
                let message = format!("{third} is one number too many");
                let next = format!("give an interval and a count at most: {usage}");
                return Err(Error::invalid(message, next));
            }
        };
        if without_first && interval.is_none() {
            let since = self.since;
            let message = format!("without an interval, the only report is the one since {since}");
            return Err(Error::invalid(message, format!("omit -y, or: {usage}")));
        }
        Ok(Plan {
            names: names.to_vec(),
            interval,
            count,
            without_first,
        })
    }

    fn seconds(&self, word: &str) -> Result<Duration, Error> {
        let is_plain = word.chars().all(|c| c.is_ascii_digit() || c == '.');
        let number = word.parse::<f64>().ok().filter(|_| is_plain);
        let (shortest, usage) = (self.shortest.as_secs_f64(), self.usage);
        let next = format!("give at least {shortest} s, as in {usage}");
        match number {
            None => {
                let message = format!("{word:?} is neither {} nor an interval", self.object);
                Err(Error::invalid(message, next))
            }
            Some(number) if number < shortest => {
                let message = format!("an interval of {word} seconds is too short");
                Err(Error::invalid(message, next))
            }
            Some(number) if number > LONGEST_S => {
                let message = format!("an interval of {word} seconds is too long");
                Err(Error::invalid(message, next))
            }
            Some(number) => Ok(Duration::from_secs_f64(number)),
        }
    }

    fn reports(&self, word: &str) -> Result<u64, Error> {
        let number = word.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| {
            let message = format!("{word:?} is not a number of reports");
            let next = format!("give a number from 1 on, as in {}", self.usage);
            Error::invalid(message, next)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORTER: Reporter = Reporter {
        object: "a pool",
        since: "the pool was opened",
        is_name: |word| word.starts_with(char::is_alphabetic),
        shortest: Duration::from_millis(10),
        usage: "example",
    };

    fn plan(line: &str) -> Result<Plan, Error> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        REPORTER.plan(&words, false)
    }

    #[test]
    fn names_come_first_then_interval_and_count() {
        let expected = |pools: &[&str], interval_ms: Option<u64>, count| Plan {
            names: pools.iter().map(|name| (*name).to_owned()).collect(),
            interval: interval_ms.map(Duration::from_millis),
            count,
            without_first: false,
        };
        for (line, pools, interval_ms, count) in [
            ("", &[][..], None, Some(1)),
            ("tank", &["tank"], None, Some(1)),
            ("a b 2", &["a", "b"], Some(2000), None),
            ("0.5 3", &[], Some(500), Some(3)),
        ] {
            assert_eq!(
                plan(line),
                Ok(expected(pools, interval_ms, count)),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_no_number_or_in_no_order_is_refused_by_name() {
        for (line, said) in [
            ("tank 0", "an interval of 0 seconds is too short"),
            ("tank 99999999999", "is too long"),
            ("5x", "\"5x\" is neither a pool nor an interval"),
            ("1e3", "neither a pool nor an interval"),
            ("tank 1 0", "\"0\" is not a number of reports"),
            ("tank 1 2.5", "\"2.5\" is not a number of reports"),
            ("1 2 3", "3 is one number too many"),
            ("1 tank", "tank comes after a number"),
        ] {
            let error = plan(line).expect_err(line);
            assert!(error.message.contains(said), "{line}: {error}");
        }
    }

    #[test]
    fn a_plan_is_followed_as_often_as_it_says() {
        for (line, without_first, expected) in [
            ("0.01 3", false, &[Some(0), Some(1), Some(2)][..]),
            ("0.01 2", true, &[None, Some(0), Some(1)]),
            ("tank", false, &[Some(0)]),
        ] {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let plan = REPORTER.plan(&words, without_first).expect(line);
            let mut shown = Vec::new();
            let followed = plan.follow(|before| {
                shown.push(before);
                Ok(())
            });
            assert!(followed.is_ok(), "{line}");
            assert_eq!(shown, expected, "{line}");
        }
        let error = REPORTER.plan(&[], true).expect_err("nothing is left");
        assert!(
            error.message.contains("since the pool was opened"),
            "{error}"
        );
    }
}
