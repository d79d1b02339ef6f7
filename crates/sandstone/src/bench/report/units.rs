//! Figures in words: three significant digits, and units that people say.

/// Three significant digits at least, thousands apart: `1.23`, `45.6`, `789`, `12,345`.
pub(super) fn number(value: f64) -> String {
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

/// A whole number, thousands apart.
pub(super) fn count(value: u64) -> String {
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

/// A time in the unit that gives it few digits: `850 ns`, `155 µs`, `1.55 ms`, `2.30 s`.
pub(super) fn time(ns: f64) -> String {
    let (value, unit) = in_unit(ns);
    format!("{} {unit}", number(value))
}

/// The same for a tick of an axis, where the value is round: `100 µs`.
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

/// A round number as short as it can be: `250k`, `1.5M`, `0.2`.
pub(super) fn tick(value: f64) -> String {
    match value.abs() {
        size if size >= 1e9 => format!("{}G", plain(value / 1e9)),
        size if size >= 1e6 => format!("{}M", plain(value / 1e6)),
        size if size >= 1e4 => format!("{}k", plain(value / 1e3)),
        _ => plain(value),
    }
}

/// Without zeros at the end.
fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

/// Bytes per second in MB/s (10⁶), as disks and networks are sold.
pub(super) fn megabytes(bytes_per_s: f64) -> String {
    format!("{} MB/s", number(bytes_per_s / 1e6))
}

/// A ratio as a change: `+3.5 %`, `−12 %`; `2.41×` where it is more than double.
pub(super) fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    match percent {
        // The end of an interval of two runs: nothing is known.
        percent if percent >= 1e8 => ">1,000,000×".to_owned(),
        percent if percent >= 100.0 => format!("{}×", number(ratio)),
        percent if percent.abs() < 0.05 => "0.0 %".to_owned(),
        percent if percent < 0.0 => format!("−{:.1} %", -percent),
        percent => format!("+{percent:.1} %"),
    }
}

/// A share as percent: `63 %`, `0.4 %`.
pub(super) fn share(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        percent if percent > 0.0 && percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// Date and time in UTC of seconds since 1970: `2026-11-21 18:59 UTC`.
pub(super) fn date(unix_s: u64) -> String {
    let (days, rest) = (unix_s / 86_400, unix_s % 86_400);
    // Years begin in March here, so that the leap day is the last of its year; an era is 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (rest / 3600, rest % 3600 / 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
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

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_s, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59 UTC"),
            (1_795_287_540, "2026-11-21 18:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(date(unix_s), text);
        }
    }
}
