//! Answers of the engine, in the terms of block devices.

use store::engine::{Answer, PoolError, PoolErrorKind};

use block::lane::Outcome;
use block::{BlockError, BlockErrorKind, Done};

/// Translates the answer to a volume's request. `is_waiting` means that the pool waits for devices
/// that it cannot do without.
pub(crate) fn outcome(result: Result<Answer, PoolError>, is_waiting: bool) -> Outcome {
    match result {
        // Only streams send these requests, never a lane.
        Ok(Answer::Done | Answer::Changes(_) | Answer::Stored(_)) => Ok(Done::Nothing),
        Ok(Answer::Data(data)) => Ok(Done::Pages(data)),
        Ok(Answer::Extents(runs)) => Ok(Done::Extents(runs)),
        Err(error) => Err(block_error(&error, is_waiting)),
    }
}

/// Translates a pool's error into the terms of block devices.
pub(crate) fn block_error(error: &PoolError, is_waiting: bool) -> BlockError {
    let kind = match error.kind {
        PoolErrorKind::Invalid | PoolErrorKind::Refused => BlockErrorKind::Invalid,
        PoolErrorKind::OutOfRange => BlockErrorKind::OutOfRange,
        PoolErrorKind::NotFound => BlockErrorKind::Gone,
        PoolErrorKind::ReadOnly | PoolErrorKind::Receiving | PoolErrorKind::Modified => {
            BlockErrorKind::ReadOnly
        }
        PoolErrorKind::NoSpace => BlockErrorKind::NoSpace,
        PoolErrorKind::Damaged => BlockErrorKind::Medium,
        PoolErrorKind::Device | PoolErrorKind::Suspended if is_waiting => BlockErrorKind::Away,
        PoolErrorKind::Device | PoolErrorKind::Suspended => BlockErrorKind::Gone,
    };
    BlockError::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initiators_are_told_what_kind_of_error_it_was() {
        let told = |kind| block_error(&PoolError::new(kind, "so it is"), false).kind();
        for (kind, expected) in [
            (PoolErrorKind::Damaged, BlockErrorKind::Medium),
            (PoolErrorKind::OutOfRange, BlockErrorKind::OutOfRange),
            (PoolErrorKind::Device, BlockErrorKind::Gone),
            (PoolErrorKind::NoSpace, BlockErrorKind::NoSpace),
        ] {
            assert_eq!(told(kind), expected, "{kind:?}");
        }
    }
}
