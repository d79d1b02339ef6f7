//! Figures as people read them: with fixed decimals, so that the points of a column stand below
//! each other.

use std::time::{SystemTime, UNIX_EPOCH};

use model::date;
use model::quantity::format_size;

/// Text for a value that is not known.
pub(crate) const NONE: &str = "–";

/// Writes a count with thin spaces between groups of three digits.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + 6);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Writes a rate per second without decimals. A rate below one half that is not zero is "<1".
pub(crate) fn rate(value: f64) -> String {
    if value > 0.0 && value < 0.5 {
        return "<1".to_owned();
    }
    // Rates are far below the limit of the type.
    count(value.round() as u64)
}

/// Writes bytes per second in MiB/s, with one decimal.
pub(crate) fn mib(bytes_per_second: f64) -> String {
    format!("{:.1}", bytes_per_second / f64::from(1 << 20))
}

/// Writes microseconds as milliseconds with three decimals.
pub(crate) fn ms(us: Option<f64>) -> String {
    us.map_or_else(|| NONE.to_owned(), |us| format!("{:.3}", us / 1000.0))
}

/// Writes a size as zfs does.
pub(crate) fn size(bytes: u64) -> String {
    format_size(bytes)
}

/// Writes a time since 1970 for people.
pub(crate) fn time(time_s: u64) -> String {
    date::utc(time_s)
}

/// Writes a length of time in its two largest units: `3d 4h`, `12m 5s`.
pub(crate) fn duration(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let first = units.iter().position(|(of, _)| seconds >= *of);
    let Some(first) = first else {
        return "0s".to_owned();
    };
    let (of, letter) = units[first];
    let rest = units
        .get(first + 1)
        .map(|(next, letter)| (seconds % of / next, letter));
    match rest {
        Some((rest, next)) if rest > 0 => format!("{}{letter} {rest}{next}", seconds / of),
        _ => format!("{}{letter}", seconds / of),
    }
}

/// Writes how long ago a time since 1970 was.
pub(crate) fn ago(time_s: u64) -> String {
    match now().saturating_sub(time_s) {
        0 => "now".to_owned(),
        seconds => format!("{} ago", duration(seconds)),
    }
}

/// Returns the time in seconds since 1970.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// Joins names to a list, of which at most `most` are told.
pub(crate) fn listed(names: &[String], most: usize) -> String {
    let told = names[..names.len().min(most)].join(", ");
    match names.len().saturating_sub(most) {
        0 => told,
        others => format!("{told}, and {others} more"),
    }
}

/// Returns the milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Encodes text as one segment of a path, or as one value of a query.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Returns the path of a page with names in it: `at("/units", &["a/b"])` is `/units/a%2Fb`.
pub(crate) fn at(folder: &str, names: &[&str]) -> String {
    let mut path = folder.to_owned();
    for name in names {
        path.push('/');
        path.push_str(&escape(name));
    }
    path
}

/// Returns the word in the plural, unless there is one.
pub(crate) fn number_of(count: usize, word: &str) -> String {
    match count {
        1 => format!("1 {word}"),
        many => format!("{} {word}s", self::count(many as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_names_the_first_are_told() {
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(listed(&names, 3), "a, b, c");
        assert_eq!(listed(&names, 2), "a, b, and 1 more");
        assert_eq!(listed(&[], 2), "");
    }

    #[test]
    fn figures_have_fixed_decimals() {
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!((count(0), count(999)), ("0".to_owned(), "999".to_owned()));
        assert_eq!(
            (rate(0.2), rate(0.0), rate(1234.5)),
            ("<1".into(), "0".into(), "1\u{202f}235".into())
        );
        assert_eq!(
            (ms(Some(1234.5)), ms(Some(9.0)), ms(None)),
            ("1.234".into(), "0.009".into(), NONE.into())
        );
        assert_eq!(mib(1_572_864.0), "1.5");
    }

    #[test]
    fn times_have_two_units() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (3725, "1h 2m"),
            (200_000, "2d 7h"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn names_in_paths_are_escaped() {
        assert_eq!(at("/units", &["a/b c", "é"]), "/units/a%2Fb%20c/%C3%A9");
        assert_eq!(at("/units", &["\"><script>"]), "/units/%22%3E%3Cscript%3E");
    }
}
