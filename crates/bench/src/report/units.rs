//! Figures in words: three significant digits, and units that people say.

/// Formats a number with at least three significant digits, thousands apart: `1.23`, `45.6`, `789`,
/// `12,345`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.001 => format!("{value:.1e}"),
        size if size < 0.0995 => format!("{value:.4}"),
        size if size < 0.9995 => format!("{value:.3}"),
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => grouped(value.round() as i128),
    }
}

/// Formats a whole number, thousands apart.
pub fn count(value: u64) -> String {
    grouped(i128::from(value))
}

fn grouped(value: i128) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 {
        format!("−{text}")
    } else {
        text
    }
}

/// Formats a time in the unit that gives it few digits: `850 ns`, `155 µs`, `1.55 ms`, `2.30 s`.
pub(super) fn time(ns: f64) -> String {
    let (value, unit) = in_unit(ns);
    format!("{} {unit}", number(value))
}

/// Formats a round time for a tick of an axis: `100 µs`.
pub(super) fn time_tick(ns: f64) -> String {
    let (value, unit) = in_unit(ns);
    format!("{} {unit}", plain(value))
}

fn in_unit(ns: f64) -> (f64, &'static str) {
    match ns {
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999_500.0 => (ns / 1e3, "µs"),
        ns if ns < 999_500_000.0 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    }
}

/// Formats a round number as short as possible: `250k`, `1.5M`, `0.2`.
pub(super) fn tick(value: f64) -> String {
    match value.abs() {
        size if size >= 1e9 => format!("{}G", plain(value / 1e9)),
        size if size >= 1e6 => format!("{}M", plain(value / 1e6)),
        size if size >= 1e4 => format!("{}k", plain(value / 1e3)),
        _ => plain(value),
    }
}

/// Formats a number without zeros at the end.
fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

/// Formats bytes per second in MB/s (10⁶), as disks and networks are sold.
pub(super) fn megabytes(bytes_per_s: f64) -> String {
    format!("{} MB/s", number(bytes_per_s / 1e6))
}

/// Formats a ratio as a change: `+3.5 %`, `−12 %`; `2.41×` if it is more than double.
pub(super) fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    match percent {
        // The interval of two runs can end here; it says nothing.
        percent if percent >= 1e8 => ">1,000,000×".to_owned(),
        percent if percent >= 100.0 => format!("{}×", number(ratio)),
        percent if percent.abs() < 0.05 => "0.0 %".to_owned(),
        percent if percent < 0.0 => format!("−{:.1} %", -percent),
        percent => format!("+{percent:.1} %"),
    }
}

/// Formats a share as percent: `63 %`, `0.4 %`.
pub(super) fn share(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        percent if percent > 0.0 && percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// Returns the columns of each part of a table with `all` columns on a page that shows `most`. The
/// parts have one size, and none is nearly empty.
pub(super) fn columns(all: usize, most: usize) -> usize {
    let parts = all.div_ceil(most).max(1);
    all.div_ceil(parts).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.00012, "1.2e-4"),
            (0.0123, "0.0123"),
            (0.5, "0.500"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (99.96, "100"),
            (1234.6, "1,235"),
            (1_234_567.0, "1,234,567"),
            (-1234.0, "−1,234"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (850.0, "850 ns"),
            (999.7, "1.00 µs"),
            (154_900.0, "155 µs"),
            (1_550_000.0, "1.55 ms"),
            (2.3e9, "2.30 s"),
        ] {
            assert_eq!(time(ns), text);
        }
        assert_eq!(
            (time_tick(1e5), time_tick(5e8)),
            ("100 µs".into(), "500 ms".into())
        );
        let ticks = [0.2, 1500.0, 250_000.0, 1.5e6, 2e9].map(tick);
        assert_eq!(ticks, ["0.2", "1500", "250k", "1.5M", "2G"]);
    }

    #[test]
    fn changes_say_their_direction() {
        let changes = [1.035, 0.88, 1.0001, 2.41, 1.999].map(change);
        assert_eq!([11_599.0, 6e22].map(change), ["11,599×", ">1,000,000×"]);
        assert_eq!(changes, ["+3.5 %", "−12.0 %", "0.0 %", "2.41×", "+99.9 %"]);
        assert_eq!([0.632, 0.004, 0.0].map(share), ["63 %", "0.4 %", "0 %"]);
    }
}
