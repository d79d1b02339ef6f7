//! Rings: a minute for six hours, ten minutes for fourteen days, six hours for two years.
//!
//! Times are minutes since 1970. A *window* is the time that one row of a ring covers; it is named
//! by its first minute, which is a multiple of its length.

use model::history::Span;

/// One ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    /// Number of the ring: 0 has the shortest windows.
    pub(crate) number: usize,
    /// Minutes of a window.
    pub(crate) period: u32,
    /// Rows of the ring.
    pub(crate) rows: u32,
}

/// Number of rings.
pub(crate) const RINGS: usize = 3;

/// All rings. Each is made of the one before.
pub(crate) const ALL: [Ring; RINGS] = [
    Ring {
        number: 0,
        period: 1,
        rows: 360,
    },
    Ring {
        number: 1,
        period: 10,
        rows: 2016,
    },
    Ring {
        number: 2,
        period: 360,
        rows: 2920,
    },
];

impl Ring {
    /// Returns the ring that covers a span.
    pub(crate) fn of(span: Span) -> Self {
        match span {
            Span::SixHours => ALL[0],
            Span::FourteenDays => ALL[1],
            Span::TwoYears => ALL[2],
        }
    }

    /// Returns the ring that is made of this one.
    pub(crate) fn coarser(self) -> Option<Self> {
        ALL.get(self.number + 1).copied()
    }

    /// Returns the ring that this one is made of.
    pub(crate) fn finer(self) -> Option<Self> {
        ALL.get(self.number.checked_sub(1)?).copied()
    }

    /// Returns the window in which a minute lies.
    pub(crate) fn window(self, minute: u32) -> u32 {
        minute - minute % self.period
    }

    /// Returns the windows that a chart shows if its last window is `last`, the oldest first.
    pub(crate) fn windows(self, last: u32) -> impl Iterator<Item = u32> {
        let first = last.saturating_sub((self.rows - 1) * self.period);
        (first..=last).step_by(self.period as usize)
    }

    /// Returns the row that a sequence number takes.
    pub(crate) fn row(self, seq: u32) -> u32 {
        seq % self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rings_cover_their_spans() {
        let days = |ring: Ring| f64::from(ring.period * ring.rows) / 1440.0;
        assert_eq!(ALL.map(days), [0.25, 14.0, 730.0]);
        for ring in ALL {
            assert_eq!(ALL[ring.number], ring);
            if let Some(coarser) = ring.coarser() {
                assert_eq!(coarser.period % ring.period, 0);
                assert_eq!(coarser.finer(), Some(ring));
            }
        }
    }

    #[test]
    fn windows_end_with_the_last() {
        let ring = Ring::of(Span::FourteenDays);
        let windows: Vec<u32> = ring.windows(ring.window(30_000_009)).collect();
        assert_eq!(windows.len(), 2016);
        assert_eq!(windows.last(), Some(&30_000_000));
        assert_eq!(ring.windows(20).collect::<Vec<_>>(), [0, 10, 20]);
    }
}
