//! Outlook of a pool: when it will be full, as a range, if it goes on filling as it did lately.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

const HOUR_S: u64 = 3600;
const DAY_S: u64 = 24 * HOUR_S;
/// Time beyond which no outlook says more than that it is far.
const FAR_S: u64 = 730 * DAY_S;

/// Time until a pool is full. The range comes from the quartiles of the growth from day to day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FillOutlook {
    /// Outlook in words, such as `full in 40 to 60 days` or `not filling`.
    pub text: String,
    /// Bytes by which the pool filled in a day: the median. Negative if it became emptier.
    pub bytes_per_day: i64,
    /// Seconds until the pool is full at the earliest. `None` means that it is not filling.
    pub earliest_s: Option<u64>,
    /// Seconds until the pool is full at the latest. `None` means that there is no such time.
    pub latest_s: Option<u64>,
    /// Seconds that the records span on which the outlook rests.
    pub data_s: u64,
}

impl FillOutlook {
    /// Returns the outlook of a pool with this many free bytes. `bytes_per_day` are the lower
    /// quartile of its growth, the median and the upper quartile.
    pub fn new(bytes_per_day: [f64; 3], available: u64, data_s: u64) -> Self {
        let [slow, median, fast] = bytes_per_day;
        let is_filling = median > 0.0;
        let seconds = |rate: f64| {
            let seconds = available as f64 / rate * DAY_S as f64;
            (is_filling && rate > 0.0).then_some(seconds as u64)
        };
        let mut outlook = Self {
            text: String::new(),
            bytes_per_day: median as i64,
            earliest_s: seconds(fast),
            latest_s: seconds(slow),
            data_s,
        };
        outlook.text = outlook.in_words();
        outlook
    }

    fn in_words(&self) -> String {
        let Some(earliest) = self.earliest_s else {
            return "not filling".to_owned();
        };
        let latest = self.latest_s.filter(|latest| *latest < FAR_S);
        match latest {
            _ if earliest >= FAR_S => "not full within 2 years".to_owned(),
            None => {
                let (count, unit) = rounded(earliest, earliest);
                match count {
                    0 => "full at any time".to_owned(),
                    1 => format!("full in 1 {unit} at the earliest"),
                    count => format!("full in {count} {unit}s at the earliest"),
                }
            }
            Some(latest) => {
                let ((from, unit), (to, _)) = (rounded(earliest, latest), rounded(latest, latest));
                match (from, to) {
                    (0, 0 | 1) => format!("full within 1 {unit}"),
                    (0, to) => format!("full within {to} {unit}s"),
                    (1, 1) => format!("full in 1 {unit}"),
                    (from, to) if from == to => format!("full in {from} {unit}s"),
                    (from, to) => format!("full in {from} to {to} {unit}s"),
                }
            }
        }
    }
}

/// Rounds a time to days, or to hours if `largest` is short.
fn rounded(seconds: u64, largest: u64) -> (u64, &'static str) {
    let (unit_s, unit) = match largest < 2 * DAY_S {
        true => (HOUR_S, "hour"),
        false => (DAY_S, "day"),
    };
    ((seconds + unit_s / 2) / unit_s, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_told_in_words() {
        let gib = f64::from(1 << 30);
        for (rates, available, expected) in [
            ([1.0, 1.2, 1.5], 60.0, "full in 40 to 60 days"),
            ([1.0, 1.0, 1.0], 50.0, "full in 50 days"),
            ([-1.0, 1.0, 2.0], 60.0, "full in 30 days at the earliest"),
            ([0.001, 1.0, 2.0], 60.0, "full in 30 days at the earliest"),
            ([-2.0, -1.0, 2.0], 60.0, "not filling"),
            ([0.0, 0.0, 0.0], 60.0, "not filling"),
            ([0.001, 0.001, 0.002], 60.0, "not full within 2 years"),
            ([24.0, 24.0, 48.0], 10.0, "full in 5 to 10 hours"),
            ([24.0, 24.0, 24.0], 1.0, "full in 1 hour"),
            ([1.0, 24.0, 240.0], 0.5, "full within 12 hours"),
            ([24.0, 24.0, 24.0], 0.0, "full within 1 hour"),
            ([0.0, 24.0, 24.0], 0.0, "full at any time"),
            ([1.0, 1.0, 100.0], 20.0, "full within 20 days"),
        ] {
            let told = FillOutlook::new(rates.map(|of| of * gib), (available * gib) as u64, 0);
            assert_eq!(told.text, expected, "{rates:?} {available}");
        }
    }

    #[test]
    fn figures_are_those_of_the_words() {
        let told = FillOutlook::new([100.0, 200.0, 400.0], 4000, 7);
        assert_eq!(told.bytes_per_day, 200);
        assert_eq!(told.earliest_s, Some(10 * DAY_S));
        assert_eq!(told.latest_s, Some(40 * DAY_S));
        assert_eq!(told.data_s, 7);
        let told = FillOutlook::new([-400.0, -200.0, 400.0], 4000, 7);
        assert_eq!((told.earliest_s, told.latest_s), (None, None));
        assert_eq!(told.bytes_per_day, -200);
    }
}
