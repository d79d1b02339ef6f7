//! How full a pool is: told when it becomes so, and once; a pool that breathes about a threshold says nothing more.

use store::pool::PoolStatus;

/// What a pool that was nearly full must have become again before it is told anew: so many per cent below.
const BACK: u64 = 3;

/// How full a pool is, in steps that are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fill {
    /// There is room.
    #[default]
    Roomy,
    /// 80 per cent are in use: the time to do something about it.
    High,
    /// 90 per cent.
    Critical,
    /// Nothing more can be written.
    Full,
}

/// How full a pool is, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fullness {
    /// Per cent in use, parity included.
    percent: u64,
    /// Nothing more can be written.
    is_full: bool,
}

impl Fullness {
    pub(super) fn of(status: &PoolStatus) -> Self {
        let (used, size) = (status.counts.allocated, status.counts.size.max(1));
        Self {
            percent: used.saturating_mul(100) / size,
            is_full: status.available == 0,
        }
    }

    /// The step that this is, whatever was before.
    pub(super) fn now(self) -> Fill {
        match self.percent {
            _ if self.is_full => Fill::Full,
            90.. => Fill::Critical,
            80.. => Fill::High,
            _ => Fill::Roomy,
        }
    }

    /// The step that is told after `before`: less than that only where it is clearly less.
    pub(super) fn after(self, before: Fill) -> Fill {
        let clearly = Self {
            percent: self.percent + BACK,
            ..self
        };
        self.now().max(clearly.now().min(before))
    }

    /// `81 % of its space is in use`
    pub(super) fn told(self) -> String {
        format!("{} % of its space is in use", self.percent)
    }
}

impl Fill {
    /// In words; nothing where there is room.
    pub(super) fn told(self) -> &'static str {
        match self {
            Self::Roomy => "the pool has room",
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
