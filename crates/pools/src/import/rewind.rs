//! Rewinding of a damaged pool to an older checkpoint. The result is first found and reported on
//! devices that are only read. The rewind follows only then.

use std::sync::Arc;

use store::engine::{Back, Examined, OpenError, OpenErrorKind, Rewound};

use super::drive::{Drive, Opened};
use block::BlockDevice;
use model::pool::rewind::{KnownCheckpoint, Reach, RewindView};
use model::{Error, ErrorKind};

/// Finds the least that must be given up to open the pool, and the state that results. If
/// `checkpoint` is given, everything newer is given up instead, the log too. `None` means that
/// nothing is given up.
///
/// # Errors
/// The pool cannot be opened within the allowed reach, or the labels do not know the checkpoint.
pub(crate) fn plan(
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

/// Returns how many checkpoints are newer than the checkpoint of this number.
pub(crate) fn steps_to(examined: &Examined, number: u64) -> Result<usize, Error> {
    let mut roots = examined.roots.iter();
    let steps = roots.position(|root| root.root.epoch.0 == number);
    steps.ok_or_else(|| {
        let numbers = examined.roots.iter().map(|root| root.root.epoch.0);
        let (first, last) = (numbers.clone().min(), numbers.max());
        let known = first.zip(last);
        let known = known.map_or("they hold no checkpoint".to_owned(), |(first, last)| {
            format!("they hold some between {first} and {last}")
        });
        Error::not_found(
            format!("the labels do not hold checkpoint {number}; {known}"),
            "`sandstone pool import -F -n -d PATH NAME` lists the checkpoints that they hold",
        )
    })
}

/// Returns the failure that says most: the newest checkpoint's, unless only the log is at fault.
fn least(before: Option<OpenError>, error: OpenError) -> Option<OpenError> {
    match before {
        Some(before) if before.kind != OpenErrorKind::LogDamaged => Some(before),
        _ => Some(error),
    }
}

fn unusable(reason: &str, reach: Reach) -> Error {
    let next = match reach {
        Reach::Extreme => {
            "attach all of its devices, if one is missing; otherwise restore its volumes from backups"
        }
        _ => {
            "attach all of its devices; as a last resort, `sandstone pool import -F -X -n` tells whether an \
             older checkpoint can be opened, although some of its blocks may have been overwritten"
        }
    };
    let message =
        format!("the pool cannot be opened, even if its newest changes are discarded: {reason}");
    Error::new(ErrorKind::Corrupt, message, next)
}

/// Describes a pool that opens without a rewind.
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

/// Volumes and snapshots of the state that a pool is rewound to, and of its newest state if
/// readable.
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
