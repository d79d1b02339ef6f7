//! Statistical tests of whether two series of measurements differ, with a stated chance of error.
//!
//! The tests compare the means of whole runs. The seconds within one run depend on each other
//! (caches fill, a disk gets hot), so a hundred seconds are not a hundred measurements. Repeated
//! runs nearly are.
//!
//! The tests compare logarithms, not values: noise of storage grows with the figure, and people
//! want to know a ratio ("3.5 % faster"). There are two methods, one for each order of runs:
//!
//! - [`welch`] for runs that were made apart: Welch's t interval, which does not assume equal noise
//!   on both sides;
//! - [`paired`] for runs that took turns (A B A B …): a change of the machine meanwhile hits both
//!   of a pair alike, and cancels out.

/// Estimated ratio, and the interval in which it lies with the requested confidence.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Ratio {
    /// Lower end.
    pub low: f64,
    /// Best estimate.
    pub estimate: f64,
    /// Upper end.
    pub high: f64,
}

/// Most that the ends of an interval around 1 may be apart, as a factor. A wider interval leaves
/// room for what everybody would call a difference.
const MOST_ROOM: f64 = 2.0;

impl Ratio {
    /// Reports whether the interval excludes equality.
    pub fn differs(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }

    /// Reports whether the interval is so wide that it says nothing: neither that the sides differ
    /// nor that they hardly do.
    pub fn is_vague(&self) -> bool {
        !self.differs() && self.high > self.low * MOST_ROOM
    }

    fn of_logarithm(mean: f64, half_width: f64) -> Self {
        Self {
            low: (mean - half_width).exp(),
            estimate: mean.exp(),
            high: (mean + half_width).exp(),
        }
    }
}

/// Returns the ratio of `b` to `a`, measured apart. `alpha` is the chance that the interval misses
/// the true ratio. Returns `None` if a side has fewer than two values, or a value that is not
/// positive.
pub fn welch(a: &[f64], b: &[f64], alpha: f64) -> Option<Ratio> {
    let (a, b) = (Moments::of_logarithms(a)?, Moments::of_logarithms(b)?);
    let (error_a, error_b) = (a.variance / a.count, b.variance / b.count);
    let error = error_a + error_b;
    let mean = b.mean - a.mean;
    if error == 0.0 {
        return Some(Ratio::of_logarithm(mean, 0.0));
    }
    // Degrees of freedom by Welch and Satterthwaite.
    let degrees =
        error * error / (error_a * error_a / (a.count - 1.0) + error_b * error_b / (b.count - 1.0));
    Some(Ratio::of_logarithm(
        mean,
        t_quantile(1.0 - alpha / 2.0, degrees) * error.sqrt(),
    ))
}

/// Returns the ratio of `b` to `a`, measured in pairs, otherwise like [`welch`]. Also returns
/// `None` if the numbers of values differ.
pub fn paired(a: &[f64], b: &[f64], alpha: f64) -> Option<Ratio> {
    if a.len() != b.len() || a.iter().chain(b).any(|value| !is_positive(*value)) {
        return None;
    }
    let ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| b / a).collect();
    let ratios = Moments::of_logarithms(&ratios)?;
    let error = (ratios.variance / ratios.count).sqrt();
    let half_width = match error {
        0.0 => 0.0,
        error => t_quantile(1.0 - alpha / 2.0, ratios.count - 1.0) * error,
    };
    Some(Ratio::of_logarithm(ratios.mean, half_width))
}

fn is_positive(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

struct Moments {
    count: f64,
    mean: f64,
    variance: f64,
}

impl Moments {
    fn of_logarithms(values: &[f64]) -> Option<Self> {
        if values.len() < 2 || values.iter().any(|value| !is_positive(*value)) {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().map(|value| value.ln()).sum::<f64>() / count;
        let squares = values.iter().map(|value| (value.ln() - mean).powi(2));
        Some(Self {
            count,
            mean,
            variance: squares.sum::<f64>() / (count - 1.0),
        })
    }
}

/// Returns the value below which Student's t with these degrees of freedom stays with this
/// probability (0.5 to 1).
pub fn t_quantile(probability: f64, degrees: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while t_probability(high, degrees) < probability && high < 1e12 {
        (low, high) = (high, high * 2.0);
    }
    // Each step halves the interval, down to the last bit of a number.
    for _ in 0..56 {
        let middle = (low + high) / 2.0;
        if t_probability(middle, degrees) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// Returns the probability that Student's t stays below a positive value.
fn t_probability(t: f64, degrees: f64) -> f64 {
    1.0 - incomplete_beta(degrees / (degrees + t * t), degrees / 2.0, 0.5) / 2.0
}

/// Computes the regularized incomplete beta function by its continued fraction.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges quickly on this side only; the other side is its mirror image.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front =
        (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    let tiny = f64::MIN_POSITIVE / f64::EPSILON;
    let away_from_zero = |value: f64| if value.abs() < tiny { tiny } else { value };
    let (mut c, mut d, mut fraction) = (1.0, 0.0, 1.0);
    for step in 0..1000u32 {
        let m = f64::from(step / 2);
        let numerator = match step {
            0 => 1.0,
            _ if step % 2 == 0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        d = 1.0 / away_from_zero(1.0 + numerator * d);
        c = away_from_zero(1.0 + numerator / c);
        fraction *= c * d;
        if (1.0 - c * d).abs() < 1e-15 {
            break;
        }
    }
    front * (fraction - 1.0)
}

/// Computes the logarithm of the gamma function of a positive number by Lanczos' approximation (g =
/// 7, nine terms).
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        let reflected = std::f64::consts::PI / (std::f64::consts::PI * x).sin();
        return reflected.ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let base = x + 7.5;
    let tail = TERMS.iter().enumerate().skip(1);
    let sum = TERMS[0]
        + tail
            .map(|(index, term)| term / (x + index as f64))
            .sum::<f64>();
    (2.0 * std::f64::consts::PI).sqrt().ln() + (x + 0.5) * base.ln() - base + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (probability, degrees, expected) in [
            (0.975, 1.0, 12.706_205),
            (0.995, 2.0, 9.924_843),
            (0.975, 4.0, 2.776_445),
            (0.95, 7.0, 1.894_579),
            (0.975, 10.0, 2.228_139),
            (0.9995, 30.0, 3.645_959),
            (0.975, 1e6, 1.959_966),
        ] {
            let found = t_quantile(probability, degrees);
            assert!((found - expected).abs() < 2e-6, "{found} for {expected}");
        }
    }

    /// Returns figures with noise of this relative size around a true value.
    fn noisy(random: &mut Random, count: usize, value: f64, noise: f64) -> Vec<f64> {
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 + f64::EPSILON;
        let mut normal =
            || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        (0..count)
            .map(|_| value * (noise * normal()).exp())
            .collect()
    }

    /// Returns how often a method sees a difference between series with this `ratio`.
    fn seen(
        ratio: f64,
        noise: (f64, f64),
        method: fn(&[f64], &[f64], f64) -> Option<Ratio>,
    ) -> f64 {
        let seeds = 4000;
        let differs = |seed: &u64| {
            let mut random = Random::new(*seed);
            let a = noisy(&mut random, 5, 100.0, noise.0);
            let b = noisy(&mut random, 5, 100.0 * ratio, noise.1);
            method(&a, &b, 0.05).expect("positive values").differs()
        };
        (0..seeds).filter(differs).count() as f64 / seeds as f64
    }

    #[test]
    fn equal_things_are_told_apart_no_more_often_than_stated() {
        // Three standard deviations of a rate of 5 % over 4,000 seeds are 1 %.
        for method in [welch, paired] {
            let rate = seen(1.0, (0.03, 0.03), method);
            assert!((0.03..=0.06).contains(&rate), "{rate}");
        }
        let unequal = seen(1.0, (0.01, 0.1), welch);
        assert!((0.03..=0.065).contains(&unequal), "{unequal}");
    }

    #[test]
    fn a_real_difference_is_seen() {
        assert!(seen(1.2, (0.03, 0.03), welch) > 0.99);
        assert!(seen(1.2, (0.03, 0.03), paired) > 0.99);
    }

    #[test]
    fn what_drifts_cancels_out_in_pairs() {
        let mut random = Random::new(5);
        let a = noisy(&mut random, 6, 100.0, 0.005);
        let b = noisy(&mut random, 6, 104.0, 0.005);
        // Each round finds the machine 10 % slower than the one before.
        let drift = |values: &[f64]| -> Vec<f64> {
            values
                .iter()
                .enumerate()
                .map(|(round, value)| value * 0.9f64.powi(round as i32))
                .collect()
        };
        let (a, b) = (drift(&a), drift(&b));
        assert!(!welch(&a, &b, 0.05).expect("positive").differs());
        let ratio = paired(&a, &b, 0.05).expect("positive");
        assert!(
            ratio.differs() && ratio.low < 1.04 && ratio.high > 1.04,
            "{ratio:?}"
        );
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(welch(&[1.0], &[1.0, 2.0], 0.05), None);
        assert_eq!(welch(&[1.0, 0.0], &[1.0, 2.0], 0.05), None);
        assert_eq!(paired(&[1.0, 2.0], &[1.0, 2.0, 3.0], 0.05), None);
        let equal = welch(&[2.0, 2.0], &[2.0, 2.0], 0.05).expect("positive");
        assert!(!equal.differs());
        let exact = welch(&[2.0, 2.0], &[3.0, 3.0], 0.05).expect("positive");
        assert!(exact.differs() && (exact.estimate - 1.5).abs() < 1e-12);
    }
}
