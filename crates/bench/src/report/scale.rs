//! Scales: the place of a value along an axis, and the values that deserve a tick.

/// A scale from its low end (0) to its high end (1).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    kind: ScaleKind,
    low: f64,
    high: f64,
    /// Values with a tick, ascending.
    pub(super) ticks: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScaleKind {
    Linear,
    Logarithmic,
    /// Share that is not yet reached, by powers of ten: 90 %, 99 %, 99.9 % are equally far apart.
    Percentile,
}

impl Scale {
    /// Creates a linear scale from 0 to the first tick that is not below the greatest value.
    pub(super) fn linear(greatest: f64) -> Self {
        let greatest = if greatest > 0.0 && greatest.is_finite() {
            greatest
        } else {
            1.0
        };
        let step = round_step(greatest / 4.0);
        let steps = (greatest / step - 1e-9).ceil() as u32;
        Self {
            kind: ScaleKind::Linear,
            low: 0.0,
            high: step * f64::from(steps),
            ticks: (0..=steps).map(|index| step * f64::from(index)).collect(),
        }
    }

    /// Creates a linear scale from 0 to exactly this value, with ticks at round values.
    pub(super) fn linear_to(greatest: f64) -> Self {
        let mut scale = Self::linear(greatest);
        if greatest > 0.0 && greatest.is_finite() {
            scale.high = greatest;
            scale.ticks.retain(|tick| *tick <= greatest);
        }
        scale
    }

    /// Creates a logarithmic scale over whole powers of ten. If the values span less than one, it
    /// covers 1, 2 and 5 times powers of ten.
    pub(super) fn logarithmic(least: f64, greatest: f64) -> Self {
        let least = if least > 0.0 { least } else { 1.0 };
        let greatest = greatest.max(least);
        let marks = |factors: &[f64]| -> Vec<f64> {
            let (first, last) = (
                least.log10().floor() as i32 - 1,
                greatest.log10().ceil() as i32 + 1,
            );
            let powers = (first..=last).map(|power| 10f64.powi(power));
            powers
                .flat_map(|power| factors.iter().map(move |factor| factor * power))
                .collect()
        };
        let within = |marks: Vec<f64>| -> Vec<f64> {
            let tolerance = 1e-9;
            let low = marks
                .iter()
                .rfind(|mark| **mark <= least * (1.0 + tolerance));
            let high = marks
                .iter()
                .find(|mark| **mark >= greatest * (1.0 - tolerance));
            let low = low.copied().unwrap_or(least);
            let high = high.copied().unwrap_or(greatest).max(low * 2.0);
            let inside =
                |mark: &f64| *mark >= low * (1.0 - tolerance) && *mark <= high * (1.0 + tolerance);
            marks.into_iter().filter(inside).collect()
        };
        let mut ticks = within(marks(&[1.0, 2.0, 5.0]));
        let (low, high) = (ticks[0], ticks[ticks.len() - 1]);
        if ticks.len() > 6 {
            ticks = marks(&[1.0]);
            ticks.retain(|tick| *tick >= low * 0.999 && *tick <= high * 1.001);
        }
        Self {
            kind: ScaleKind::Logarithmic,
            low,
            high,
            ticks,
        }
    }

    /// Creates a percentile scale from the least share to the one that leaves one of this many
    /// accesses.
    pub(super) fn percentile(accesses: u64) -> Self {
        let nines = (accesses.max(10) as f64).log10().min(7.0);
        let all = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];
        let high = 100.0 - 10f64.powf(2.0 - nines);
        Self {
            kind: ScaleKind::Percentile,
            low: 0.0,
            high,
            ticks: all.into_iter().filter(|tick| *tick <= high).collect(),
        }
    }

    /// Returns the place of a value: 0 at the low and 1 at the high end. A value outside is moved
    /// to the end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let along = |value: f64| match self.kind {
            ScaleKind::Linear => value,
            ScaleKind::Logarithmic => value.max(f64::MIN_POSITIVE).log10(),
            ScaleKind::Percentile => -(1.0 - value / 100.0).max(f64::MIN_POSITIVE).log10(),
        };
        let (low, high) = (along(self.low), along(self.high));
        let place = (along(value) - low) / (high - low);
        if place.is_nan() {
            0.0
        } else {
            place.clamp(0.0, 1.0)
        }
    }

    /// Returns the values at both ends.
    #[cfg(test)]
    pub(super) fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }
}

/// Returns the least of 1, 2, 2.5 and 5 times a power of ten that is not below this value.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 2.5, 5.0];
    let found = factors
        .iter()
        .find(|factor| *factor * power >= least * (1.0 - 1e-9));
    found.map_or(10.0 * power, |factor| factor * power)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn linear_ticks_are_round() {
        assert_eq!(Scale::linear(102_345.0).ticks, [0.0, 50e3, 100e3, 150e3]);
        assert_eq!(Scale::linear(100.0).ticks, [0.0, 25.0, 50.0, 75.0, 100.0]);
        assert_eq!(Scale::linear(7.0).ticks, [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(Scale::linear(0.0).ends(), (0.0, 1.0));
        assert_eq!(Scale::linear(f64::NAN).ends(), (0.0, 1.0));
        let exact = Scale::linear_to(30.0);
        assert_eq!(
            (exact.ends(), exact.ticks),
            ((0.0, 30.0), vec![0.0, 10.0, 20.0, 30.0])
        );
    }

    #[test]
    fn logarithmic_ticks_are_powers_of_ten_or_finer() {
        let wide = Scale::logarithmic(2_100.0, 450_000_000.0);
        assert_eq!(wide.ends(), (2_000.0, 500_000_000.0));
        assert_eq!(wide.ticks, [1e4, 1e5, 1e6, 1e7, 1e8]);
        let narrow = Scale::logarithmic(130.0, 190.0);
        assert_eq!(
            (narrow.ends(), narrow.ticks),
            ((100.0, 200.0), vec![100.0, 200.0])
        );
        let flat = Scale::logarithmic(100.0, 100.0);
        assert_eq!(flat.ends(), (100.0, 200.0));
        assert_eq!(Scale::logarithmic(0.0, 0.0).ends(), (1.0, 2.0));
    }

    #[test]
    fn percentiles_are_as_far_apart_as_their_nines() {
        let scale = Scale::percentile(10_000);
        assert_eq!(scale.ticks, [0.0, 50.0, 90.0, 99.0, 99.9, 99.99]);
        for (percent, place) in [
            (0.0, 0.0),
            (90.0, 0.25),
            (99.0, 0.5),
            (99.9, 0.75),
            (100.0, 1.0),
        ] {
            assert!((scale.place(percent) - place).abs() < 1e-6, "{percent}");
        }
    }

    proptest! {
        #[test]
        fn values_lie_on_their_scale_in_order(a in 1e-3f64..1e12, b in 1e-3f64..1e12) {
            let (a, b) = (a.min(b), a.max(b));
            for scale in [Scale::linear(b), Scale::logarithmic(a, b), Scale::linear_to(b)] {
                prop_assert!((0.0..=1.0).contains(&scale.place(a)));
                prop_assert!(scale.place(a) <= scale.place(b));
                prop_assert!(!scale.ticks.is_empty() && scale.ticks.len() <= 17, "{scale:?}");
                prop_assert!(scale.ticks.is_sorted());
                let (low, high) = scale.ends();
                prop_assert!(low <= a && b <= high * 1.000_001, "{scale:?}");
            }
        }
    }
}
