//! Words of verbs that report again and again: names, then the interval and the number of reports.

use std::time::Duration;

use model::Error;

/// Meaning of the words of a command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Objects that the report shows; all if none is named.
    pub(crate) names: Vec<String>,
    /// Time from report to report; `None` is one report alone.
    pub(crate) interval: Option<Duration>,
    /// Number of reports; `None` is without end.
    pub(crate) count: Option<u64>,
}

/// Longest interval in seconds: a year.
const LONGEST_S: f64 = 31_536_000.0;

impl Plan {
    /// Reads the words. Names begin with a letter; every other word is a number, or wrong. `object`
    /// is what the names are of, `usage` an example, and `shortest` the shortest interval.
    ///
    /// # Errors
    /// A word is no name, or no number where one is expected.
    pub(crate) fn read(
        words: &[String],
        object: &str,
        usage: &str,
        shortest: Duration,
    ) -> Result<Self, Error> {
        let is_number = |word: &&String| !word.starts_with(char::is_alphabetic);
        let count = words.iter().take_while(|word| !is_number(word)).count();
        let (names, numbers) = words.split_at(count);
        if let Some(late) = numbers.iter().find(|word| !is_number(word)) {
            let message = format!("{late} comes after a number");
            let next = format!("put names first, then the interval and the count: {usage}");
            return Err(Error::invalid(message, next));
        }
        let (interval, count) = match numbers {
            [] => (None, Some(1)),
            [interval] => (Some(seconds(interval, object, usage, shortest)?), None),
            [interval, count] => (
                Some(seconds(interval, object, usage, shortest)?),
                Some(reports(count, usage)?),
            ),
            [_, _, third, ..] => {
                let message = format!("{third} is one number too many");
                let next = format!("give an interval and a count at most: {usage}");
                return Err(Error::invalid(message, next));
            }
        };
        Ok(Self {
            names: names.to_vec(),
            interval,
            count,
        })
    }
}

fn seconds(word: &str, object: &str, usage: &str, shortest: Duration) -> Result<Duration, Error> {
    let is_plain = word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let number = word.parse::<f64>().ok().filter(|_| is_plain);
    let least = shortest.as_secs_f64();
    let next = format!("give {least} seconds or more, as in {usage}");
    match number {
        None => {
            let message = format!("{word:?} is neither {object} nor an interval");
            Err(Error::invalid(message, next))
        }
        Some(number) if number < shortest.as_secs_f64() => {
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

fn reports(word: &str, usage: &str) -> Result<u64, Error> {
    let number = word.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| {
        let message = format!("{word:?} is not a number of reports");
        Error::invalid(message, format!("give a number from 1 on, as in {usage}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> Result<Plan, Error> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Plan::read(&words, "a pool", "example", Duration::from_millis(10))
    }

    #[test]
    fn names_come_first_then_interval_and_count() {
        let expected = |pools: &[&str], interval_ms: Option<u64>, count| Plan {
            names: pools.iter().map(|name| (*name).to_owned()).collect(),
            interval: interval_ms.map(Duration::from_millis),
            count,
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
}
