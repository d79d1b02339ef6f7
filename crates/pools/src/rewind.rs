//! Going back where a pool is damaged: what it would come to is found out on devices that nothing is written
//! to, told, and done only then.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use store::pool::{Back, Examined, OpenError, OpenErrorKind, Rewound};
use utoipa::ToSchema;

use super::overlay::{Drive, Opened};
use block::BlockDevice;
use model::{Error, ErrorKind};

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

/// A checkpoint that labels know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KnownCheckpoint {
    /// Its number.
    pub number: u64,
    /// When it was made, in seconds since 1970.
    pub time_s: u64,
}

/// What going back comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RewindView {
    /// Whether it was done; otherwise it is what would be.
    pub is_done: bool,
    /// Nothing is given up: the pool can be opened as it is.
    pub is_whole: bool,
    /// The checkpoint that the pool goes back to: its number.
    #[serde(default)]
    pub checkpoint: u64,
    /// When it was made, in seconds since 1970.
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
    /// Those of the newest state that there are no more then; `None` where that cannot be read.
    #[serde(default)]
    pub gone: Option<Vec<String>>,
    /// Those that there are then, and not in the newest state.
    #[serde(default)]
    pub returned: Vec<String>,
    /// The checkpoints that labels know, the newest first.
    #[serde(default)]
    pub known: Vec<KnownCheckpoint>,
    /// Blocks of these may have been overwritten since.
    pub is_doubtful: bool,
}

/// The least that must be given up, or all behind the `checkpoint` that is asked for, its log too, and what that comes to. `None` for the
/// first: nothing.
///
/// # Errors
/// All that may be given up is not enough, or labels do not know that checkpoint.
pub(super) fn plan(
    examined: &Examined,
    leaves: &[(u64, Arc<dyn BlockDevice>)],
    reach: Reach,
    checkpoint: Option<u64>,
) -> Result<(Option<Back>, RewindView), Error> {
    let asked = checkpoint.map(|number| steps_to(examined, number));
    let asked = asked.transpose()?;
    let most = match reach {
        Reach::None => 0,
        Reach::Newest => 2,
        Reach::Extreme => examined.roots.len(),
    };
    let steps = match asked {
        Some(steps) => steps..steps + 1,
        None => 0..most.min(examined.roots.len()),
    };
    let attempt = |back| {
        let drive = Drive::new().map_err(|reason| unusable(&reason, reach));
        drive.map(|mut drive| drive.open(examined, leaves, back))
    };
    let Opened { pool, names } = attempt(None)?;
    let newest = names;
    let mut failure = match pool {
        Ok(_) if asked.is_none() => return Ok((None, whole(examined, newest))),
        Ok(_) => None,
        Err(error) => Some(error),
    };
    for checkpoints in steps {
        let back = Back {
            checkpoints,
            without_log: asked.is_some(),
        };
        let opened = attempt(Some(back))?;
        match opened.pool {
            Ok((_, Some(rewound))) => {
                let names = opened.names.unwrap_or_default();
                let there = Datasets { names, newest };
                return Ok((Some(back), view(examined, there, rewound)));
            }
            Ok((_, None)) => {}
            Err(error) => failure = least(failure, error),
        }
    }
    let reason = failure.map_or_else(String::new, |error| error.context);
    Err(unusable(&reason, reach))
}

/// How many checkpoints are newer than the one of this number.
pub(super) fn steps_to(examined: &Examined, number: u64) -> Result<usize, Error> {
    let mut roots = examined.roots.iter();
    let steps = roots.position(|root| root.root.epoch.0 == number);
    steps.ok_or_else(|| {
        let numbers = examined.roots.iter().map(|root| root.root.epoch.0);
        let (first, last) = (numbers.clone().min(), numbers.max());
        let known = first.zip(last);
        let known = known.map_or("none".to_owned(), |(first, last)| {
            format!("some between {first} and {last}")
        });
        Error::not_found(
            format!("the labels know no checkpoint {number}, but {known}"),
            "`sandstone pool import -F -n -d PATH NAME` lists those that they know",
        )
    })
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

/// A pool that is opened as it is.
fn whole(examined: &Examined, names: Option<Vec<String>>) -> RewindView {
    let roots = examined.roots.iter();
    let known = roots.map(|root| KnownCheckpoint {
        number: root.root.epoch.0,
        time_s: root.root.time_s,
    });
    let known: Vec<KnownCheckpoint> = known.collect();
    let newest = known.first().copied().unwrap_or_default();
    RewindView {
        is_whole: true,
        checkpoint: newest.number,
        checkpoint_s: newest.time_s,
        newest_s: newest.time_s,
        datasets: names.unwrap_or_default(),
        gone: Some(Vec::new()),
        known,
        ..RewindView::default()
    }
}

/// Volumes and snapshots of the state that a pool goes back to, and of its newest one, where that can be read.
struct Datasets {
    names: Vec<String>,
    newest: Option<Vec<String>>,
}

fn view(examined: &Examined, there: Datasets, rewound: Rewound) -> RewindView {
    let Datasets { names, newest } = there;
    let only_in = |one: &[String], other: &[String]| -> Vec<String> {
        let only = one.iter().filter(|name| !other.contains(name));
        only.cloned().collect()
    };
    let newest = newest.as_ref();
    RewindView {
        is_whole: false,
        checkpoint: rewound.epoch.0,
        checkpoint_s: rewound.time_s,
        checkpoints: rewound.checkpoints,
        groups: rewound.groups,
        damage: rewound.damage,
        is_doubtful: rewound.checkpoints > 1,
        gone: newest.map(|newest| only_in(newest, &names)),
        returned: newest.map_or_else(Vec::new, |newest| only_in(&names, newest)),
        ..whole(examined, Some(names))
    }
}
