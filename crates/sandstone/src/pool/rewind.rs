//! Going back where a pool is damaged: what it would come to is found out on devices that nothing is written
//! to, told, and done only then.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use store::pool::{Examined, OpenError, OpenErrorKind, Pool, Rewound};
use utoipa::ToSchema;

use super::overlay::Drive;
use crate::block::BlockDevice;
use crate::config::{Error, ErrorKind};

/// How much may be given up of a pool that is damaged.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// Nothing.
    #[default]
    None,
    /// The end of the log, and at most the newest checkpoint. What is left is whole.
    Newest,
    /// As many checkpoints as it takes. Blocks of what is left may have been overwritten: they are told when
    /// they are read, and by a scrub.
    Extreme,
}

/// What going back comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RewindView {
    /// Whether it was done; otherwise it is what would be.
    pub is_done: bool,
    /// Nothing is given up: the pool can be opened as it is.
    pub is_whole: bool,
    /// When the checkpoint was made that the pool goes back to, in seconds since 1970.
    pub checkpoint_s: u64,
    /// When the newest checkpoint was made, in seconds since 1970.
    pub newest_s: u64,
    /// Checkpoints that are given up, with all changes behind them.
    pub checkpoints: usize,
    /// Groups of changes of the log that are kept behind the checkpoint.
    pub groups: u64,
    /// What is wrong behind those; `None`: the end of the log was found there.
    pub damage: Option<String>,
    /// The volumes and snapshots that there are then.
    pub datasets: Vec<String>,
    /// Blocks of these may have been overwritten since.
    pub is_doubtful: bool,
}

/// The least that must be given up, and what that comes to. `None` for the first: nothing.
///
/// # Errors
/// All that may be given up is not enough.
pub(super) fn plan(
    examined: &Examined,
    leaves: &[(u64, Arc<dyn BlockDevice>)],
    reach: Reach,
) -> Result<(Option<usize>, RewindView), Error> {
    let most = match reach {
        Reach::None => 0,
        Reach::Newest => 2,
        Reach::Extreme => examined.roots.len(),
    };
    let steps = (0..most.min(examined.roots.len())).map(Some);
    let mut failure = None;
    for back in std::iter::once(None).chain(steps) {
        let mut drive = Drive::new().map_err(|reason| unusable(&reason, reach))?;
        match drive.open(examined, leaves, back) {
            Ok((pool, rewound)) => return Ok((back, view(examined, &pool, rewound))),
            Err(error) => failure = least(failure, error),
        }
    }
    let reason = failure.map_or_else(String::new, |error| error.context);
    Err(unusable(&reason, reach))
}

/// The failure that says most: what is wrong with the newest checkpoint, unless it is but the log.
fn least(before: Option<OpenError>, error: OpenError) -> Option<OpenError> {
    match before {
        Some(before) if before.kind != OpenErrorKind::LogDamaged => Some(before),
        _ => Some(error),
    }
}

fn unusable(reason: &str, reach: Reach) -> Error {
    let next = match reach {
        Reach::Extreme => {
            "attach all of its devices, if one is missing; otherwise restore its volumes from copies"
        }
        _ => {
            "attach all of its devices; as a last resort, `sandstone pool import -F -X -n` tells whether an older \
             checkpoint can be had, blocks of which may have been overwritten"
        }
    };
    let message =
        format!("the pool cannot be opened, even with its newest changes given up: {reason}");
    Error::new(ErrorKind::Corrupt, message, next)
}

fn view(examined: &Examined, pool: &Pool, rewound: Option<Rewound>) -> RewindView {
    let newest_s = examined.roots.first().map_or(0, |root| root.root.time_s);
    let catalog = pool.catalog();
    let mut datasets: Vec<String> = catalog
        .datasets()
        .filter(|dataset| dataset.geometry().is_some())
        .map(|dataset| catalog.full_name(dataset.id))
        .collect();
    datasets.sort();
    let whole = RewindView {
        is_done: false,
        is_whole: true,
        checkpoint_s: newest_s,
        newest_s,
        checkpoints: 0,
        groups: 0,
        damage: None,
        datasets,
        is_doubtful: false,
    };
    match rewound {
        None => whole,
        Some(rewound) => RewindView {
            is_whole: false,
            checkpoint_s: rewound.time_s,
            checkpoints: rewound.checkpoints,
            groups: rewound.groups,
            damage: rewound.damage,
            is_doubtful: rewound.checkpoints > 1,
            ..whole
        },
    }
}
