//! Figures of what is rare beside reads and writes: discards, flushes, and commands that failed.
//!
//! They have sums and no histograms, and units count them in one place for all loops.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Defines sums that only grow, with their differences and their totals.
macro_rules! sums {
    ($(#[$about:meta])* $name:ident { $($(#[$words:meta])* $field:ident,)+ }) => {
        $(#[$about])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema,
        )]
        pub struct $name {
            $($(#[$words])* pub $field: u64,)+
        }

        impl $name {
            /// Returns the sums of what came after an earlier moment.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.saturating_sub(earlier.$field),)+ }
            }

            /// Returns both sums together.
            #[must_use]
            pub fn plus(&self, other: &Self) -> Self {
                Self { $($field: self.$field + other.$field,)+ }
            }
        }
    };
}
pub(super) use sums;

sums! {
    /// Commands that free blocks: UNMAP, WRITE SAME with the UNMAP bit, NBD's TRIM. They count
    /// among the other commands, too.
    DiscardSums {
        /// Number of commands that succeeded.
        commands,
        /// Bytes that these commands freed.
        bytes,
        /// Nanoseconds from the arrival of each command to the end of its answer.
        time_ns,
    }
}

sums! {
    /// Commands that make earlier writes durable: SYNCHRONIZE CACHE, NBD's FLUSH. They count among
    /// the other commands, too.
    FlushSums {
        /// Number of commands that succeeded.
        commands,
        /// Nanoseconds from the arrival of each command to the end of its answer.
        time_ns,
    }
}

sums! {
    /// Commands that failed, or were aborted.
    FailureSums {
        /// Commands of all kinds that ended with another status than GOOD.
        commands,
        /// READ commands among them.
        reads,
        /// WRITE commands among them.
        writes,
        /// Bytes that the READ commands were to move.
        read_bytes,
        /// Bytes that the WRITE commands were to move.
        written_bytes,
        /// RESERVE and PERSISTENT RESERVE OUT commands that met another host's reservation.
        reserves,
        /// Commands that were aborted: by ABORT TASK, ABORT TASK SET, CLEAR TASK SET, or by a
        /// command that preempts.
        aborts,
        /// Commands that a reset of the logical unit or of the target ended.
        resets,
    }
}

/// Sums of what is rare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RareSums {
    /// Commands that free blocks.
    pub discards: DiscardSums,
    /// Commands that make earlier writes durable.
    pub flushes: FlushSums,
    /// Commands that failed, or were aborted.
    pub failures: FailureSums,
}

impl RareSums {
    /// Returns the sums of what came after an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            discards: self.discards.since(&earlier.discards),
            flushes: self.flushes.since(&earlier.flushes),
            failures: self.failures.since(&earlier.failures),
        }
    }

    /// Returns both sums together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            discards: self.discards.plus(&other.discards),
            flushes: self.flushes.plus(&other.flushes),
            failures: self.failures.plus(&other.failures),
        }
    }
}
