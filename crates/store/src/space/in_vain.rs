//! The shortest run that was looked for in vain, so that no search for a longer one follows.
//!
//! The vdev forgets it when sectors become free.

/// Length of the shortest run that was looked for in vain since sectors became free.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InVain {
    /// Length in sectors; 0: none was.
    shortest: u32,
}

impl InVain {
    /// Reports whether a search for `sectors` or fewer sectors was in vain.
    pub(super) fn covers(self, sectors: u32) -> bool {
        (1..=sectors).contains(&self.shortest)
    }

    /// Notes that `sectors` sectors were looked for in vain.
    pub(super) fn note(&mut self, sectors: u32) {
        self.shortest = match self.shortest {
            0 => sectors,
            before => before.min(sectors),
        };
    }
}
