//! Trend of a pool's fill: a median slope (Theil–Sen), told as a range.
//!
//! Pools fill by the rhythm of days: backups at night, work by day. So only pairs of equal hours on
//! different days are compared, as the seasonal form of the estimator does; a daily cycle then
//! cancels out whatever its shape. Pairs lie at most three days apart. A single big delete or copy
//! lies between few of them, and neither the median nor the quartiles notice it. In longer pairs it
//! would lie between most. Growth adds up from day to day, so longer pairs would tell no more.

use std::collections::BTreeMap;

/// Seconds of an hour.
const HOUR_S: u64 = 3600;
/// Hours of a day.
const DAY_H: u64 = 24;
/// Longest distance of a pair, in days.
const LONGEST_DAYS: u64 = 3;
/// Hours that the records must span before anything is told.
const LEAST_SPAN_H: u64 = 2 * DAY_H;
/// Pairs that there must be before anything is told: a day of hours, or the same few over weeks.
const LEAST_PAIRS: usize = 24;

/// Growth of a pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trend {
    /// Bytes in a day: the lower quartile of all pairs, the median and the upper quartile.
    pub(crate) bytes_per_day: [f64; 3],
    /// Seconds from the first to the last record.
    pub(crate) data_s: u64,
}

impl Trend {
    /// Computes the trend of points, each a time in seconds since 1970 and the bytes in use. There
    /// are at most `14 × 24` hours with three pairs each. Returns `None` if the points are too few,
    /// or span less than two days.
    pub(crate) fn of(points: impl IntoIterator<Item = (u64, f64)>) -> Option<Self> {
        let mut sums: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        let mut times = None::<(u64, u64)>;
        for (unix_s, used) in points {
            let (sum, count) = sums.entry(unix_s / HOUR_S).or_default();
            *sum += used;
            *count += 1.0;
            let (first, last) = times.unwrap_or((unix_s, unix_s));
            times = Some((first.min(unix_s), last.max(unix_s)));
        }
        let (first, last) = times?;
        let hours: BTreeMap<u64, f64> = sums
            .into_iter()
            .map(|(hour, (sum, count))| (hour, sum / count))
            .collect();
        let mut slopes = Vec::with_capacity(hours.len() * LONGEST_DAYS as usize);
        for (hour, used) in &hours {
            for days in 1..=LONGEST_DAYS {
                if let Some(later) = hours.get(&(hour + days * DAY_H)) {
                    slopes.push((later - used) / days as f64);
                }
            }
        }
        let data_s = last - first;
        if data_s < LEAST_SPAN_H * HOUR_S || slopes.len() < LEAST_PAIRS {
            return None;
        }
        slopes.sort_unstable_by(f64::total_cmp);
        Some(Self {
            bytes_per_day: [0.25, 0.5, 0.75].map(|share| quantile(&slopes, share)),
            data_s,
        })
    }
}

/// Returns a quantile of sorted values, in proportion between the two nearest.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: f64 = (1u64 << 30) as f64;
    /// Points of a day, one every ten minutes.
    const DAY: u64 = 144;

    /// Returns the trend of a series over days, given by the bytes in use at a time in days.
    fn trend(days: f64, used: impl Fn(f64) -> f64) -> Option<Trend> {
        let points = (0..(days * DAY as f64) as u64 + 1).map(|step| {
            let unix_s = 1_790_000_000 + step * 600;
            (unix_s, used(step as f64 / DAY as f64))
        });
        Trend::of(points)
    }

    /// Returns a number between -1 and 1 that looks like chance, but is not.
    fn noise(seed: u64, at: f64) -> f64 {
        let mut x = seed ^ at.to_bits();
        x ^= x >> 33;
        x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
        x ^= x >> 33;
        (x % 2001) as f64 / 1000.0 - 1.0
    }

    proptest! {
        #[test]
        fn a_line_is_found_as_it_is(per_day in -50.0f64..50.0, days in 2.0f64..14.0) {
            let told = trend(days, |t| 900.0 * GIB + per_day * GIB * t).expect("enough");
            for rate in told.bytes_per_day {
                prop_assert!((rate / GIB - per_day).abs() < 1e-3, "{rate}");
            }
        }

        #[test]
        fn noise_widens_the_range_around_the_truth(seed: u64, per_day in 1.0f64..50.0) {
            let used = |t: f64| (per_day * t + noise(seed, t) * per_day / 2.0) * GIB;
            let [slow, median, fast] = trend(14.0, used).expect("enough").bytes_per_day;
            prop_assert!(slow < fast);
            prop_assert!((median / GIB - per_day).abs() < per_day / 10.0, "{median}");
            prop_assert!(slow / GIB <= per_day && per_day <= fast / GIB, "{slow} {fast}");
        }

        #[test]
        fn a_daily_cycle_of_any_size_cancels_out(
            height in 0.0f64..500.0,
            per_day in -20.0f64..20.0,
            days in 3.0f64..14.0,
        ) {
            let used = |t: f64| (1000.0 + height * (t * std::f64::consts::TAU).sin() + per_day * t) * GIB;
            let [_, median, _] = trend(days, used).expect("enough").bytes_per_day;
            prop_assert!((median / GIB - per_day).abs() < 1e-3, "{median}");
        }

        #[test]
        fn one_big_delete_changes_nothing(at in 0.0f64..14.0, per_day in 1.0f64..20.0) {
            let used = |t: f64| (2000.0 + per_day * t - if t >= at { 1000.0 } else { 0.0 }) * GIB;
            let told = trend(14.0, used).expect("enough");
            for rate in told.bytes_per_day {
                prop_assert!((rate / GIB - per_day).abs() < 1e-3, "{rate}");
            }
        }

        #[test]
        fn gaps_change_nothing(from in 0.0f64..12.0, length in 0.0f64..6.0, per_day in 1.0f64..20.0) {
            let points = (0..14 * DAY).map(|step| (step, step as f64 / DAY as f64));
            let there = points.filter(|(_, t)| *t < from || *t >= from + length);
            let points = there.map(|(step, t)| (step * 600, per_day * GIB * t));
            if let Some(told) = Trend::of(points) {
                for rate in told.bytes_per_day {
                    prop_assert!((rate / GIB - per_day).abs() < 1e-3, "{rate}");
                }
            } else {
                prop_assert!(false, "twelve days or more are known");
            }
        }
    }

    #[test]
    fn a_pool_that_fills_only_at_night_is_told_its_mean() {
        // 24 GiB come in the first hour of each day, and nothing else.
        let used = |t: f64| (24.0 * (t.floor() + (t.fract() * 24.0).min(1.0))) * GIB;
        let told = trend(14.0, used).expect("enough");
        for rate in told.bytes_per_day {
            assert!((rate / GIB - 24.0).abs() < 1e-6, "{rate}");
        }
    }

    #[test]
    fn a_flat_pool_is_flat_and_a_shrinking_one_shrinks() {
        let flat = trend(5.0, |_| 7.0 * GIB).expect("enough");
        assert_eq!(flat.bytes_per_day, [0.0; 3]);
        let shrinking = trend(5.0, |t| (100.0 - t) * GIB).expect("enough");
        assert!(shrinking.bytes_per_day.iter().all(|rate| *rate < 0.0));
    }

    #[test]
    fn nothing_is_told_before_two_days_are_known() {
        let line = |t: f64| t * GIB;
        assert_eq!(trend(1.99, line), None);
        let told = trend(2.0, line).expect("two days");
        assert_eq!(told.data_s, 2 * DAY_H * HOUR_S);
        assert_eq!(Trend::of([]), None);
        // Two points that lie far apart are no record of the days between them.
        assert_eq!(Trend::of([(0, 0.0), (1_000_000, GIB)]), None);
    }

    #[test]
    fn a_machine_that_is_off_at_night_is_told_all_the_same() {
        let points = (0..14 * DAY).filter(|step| step % DAY < 48);
        let told = Trend::of(points.map(|step| (step * 600, step as f64 * GIB / DAY as f64)));
        let [_, median, _] = told.expect("enough").bytes_per_day;
        assert!((median / GIB - 1.0).abs() < 1e-6, "{median}");
    }
}
