//! Dates for people, made from seconds since 1970.

/// Returns the time as `2026-11-22 04:05:06 UTC`.
pub fn utc(time_s: u64) -> String {
    let (minute, second) = (to_minute(time_s), time_s % 60);
    format!("{minute}:{second:02} UTC")
}

/// Returns the time as `2026-11-22 04:05 UTC`.
pub fn utc_minute(time_s: u64) -> String {
    format!("{} UTC", to_minute(time_s))
}

fn to_minute(time_s: u64) -> String {
    let (days, rest) = (time_s / 86_400, time_s % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute) = (rest / 3600, rest / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
}

/// Returns the time in UTC as `11/22/2026 04:05:06`, the form of Windows' performance counters.
pub fn month_first(time_s: u64) -> String {
    let (days, rest) = (time_s / 86_400, time_s % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{month:02}/{day:02}/{year:04} {hour:02}:{minute:02}:{second:02}")
}

/// Returns year, month and day of the Gregorian calendar. The computation lets years begin with
/// March, so the day that may be missing comes last.
fn civil(days: u64) -> (u64, u64, u64) {
    /// Number of days from 0000-03-01 to 1970-01-01.
    const TO_1970: u64 = 719_468;
    const DAYS_IN_400_YEARS: u64 = 146_097;
    let days = days + TO_1970;
    let (era, day_of_era) = (days / DAYS_IN_400_YEARS, days % DAYS_IN_400_YEARS);
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
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (time_s, date) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_795_320_306, "2026-11-22 04:05:06 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(time_s), date);
            assert!(date.starts_with(&utc_minute(time_s)[..16]));
        }
        assert_eq!(month_first(1_795_320_306), "11/22/2026 04:05:06");
    }
}
