//! Fullness of a pool, reported once when a threshold is passed. A pool that breathes about a
//! threshold is not reported again.

use store::engine::PoolStatus;

/// Percentage by which a pool must fall below a threshold before it is reported again.
const BACK: u64 = 3;

/// Fullness of a pool, in the steps that are reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fill {
    /// The pool has free space.
    #[default]
    Roomy,
    /// Use of 80 per cent: an administrator should act.
    High,
    /// Use of 90 per cent.
    Critical,
    /// Nothing more can be written.
    Full,
}

/// Fullness of a pool, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fullness {
    /// Percentage in use, parity included.
    percent: u64,
    /// Whether nothing more can be written.
    is_full: bool,
}

impl Fullness {
    pub(super) fn of(status: &PoolStatus) -> Self {
        let (used, size) = (status.counts.allocated, status.counts.size.max(1));
        Self {
            percent: used.saturating_mul(100) / size,
            is_full: status.is_full,
        }
    }

    /// Returns the step of these numbers alone.
    pub(super) fn now(self) -> Fill {
        match self.percent {
            _ if self.is_full => Fill::Full,
            90.. => Fill::Critical,
            80.. => Fill::High,
            _ => Fill::Roomy,
        }
    }

    /// Returns the step to report after `before`. It is lower than `before` only if the fullness is
    /// clearly lower.
    pub(super) fn after(self, before: Fill) -> Fill {
        let clearly = Self {
            percent: self.percent + BACK,
            ..self
        };
        self.now().max(clearly.now().min(before))
    }

    /// Returns, for example, `81 % of its space is in use`.
    pub(super) fn told(self) -> String {
        format!("{} % of its space is in use", self.percent)
    }
}

impl Fill {
    /// Returns the step in words, or an empty text if there is free space.
    pub(super) fn told(self) -> &'static str {
        match self {
            Self::Roomy => "the pool has free space",
            Self::High => "the pool is filling up",
            Self::Critical => "the pool is nearly full",
            Self::Full => "the pool is full: writes that need space fail",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_told_once_until_the_pool_has_clearly_more_room() {
        let mut fill = Fill::Roomy;
        let mut told = Vec::new();
        let percents = [79, 80, 79, 81, 78, 77, 76, 80, 95, 89, 88, 90, 86, 90];
        for percent in percents {
            let is_full = false;
            let after = Fullness { percent, is_full }.after(fill);
            if after > fill {
                told.push((percent, after));
            }
            fill = after;
        }
        let expected = [
            (80, Fill::High),
            (80, Fill::High),
            (95, Fill::Critical),
            (90, Fill::Critical),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_pool_without_room_for_writes_is_full_whatever_is_in_use() {
        let full = Fullness {
            percent: 50,
            is_full: true,
        };
        assert_eq!(full.now(), Fill::Full);
        let better = Fullness {
            percent: 95,
            is_full: false,
        };
        assert_eq!(better.after(Fill::Full), Fill::Critical);
    }
}
