//! `pool trim`: tells devices which space of the pool is free.

use std::collections::BTreeSet;

use store::engine::{TrimRefused, TrimState};
use store::vdev::{Class, LeafId, TopLevelKind};

use crate::administer::vdevs::is_meant;
use crate::order::Hands;
use crate::registry::Pools;
use model::pool::trim::{Trim, TrimAction};
use model::{Error, ErrorKind};

impl Pools {
    /// Starts, pauses or ends trims, and returns once the pool has noted it.
    ///
    /// # Errors
    /// The pool or device does not exist, or there is no trim to start, pause or end. Nothing is
    /// changed then.
    pub fn trim(&self, name: &str, request: &Trim) -> Result<(), Error> {
        let pool = self.get(name)?;
        pool.require_writable()?;
        let (asked, request) = (pool.host.places(), request.clone());
        let done = pool.host.handle(move |hands| {
            let named = |guid: u64| {
                let path = asked.get(&guid).map(|place| place.path.clone());
                path.unwrap_or_default()
            };
            trim(hands, &request, &named)
        });
        let next = format!("see `sandstone pool status -t {name}`");
        let done = done.map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("cannot trim pool {name}: {error}"),
                next.clone(),
            )
        })?;
        done.map_err(|reason| {
            Error::new(
                ErrorKind::Refused,
                format!("cannot trim {name}: {reason}"),
                next,
            )
            .not_changed("no trim was begun, paused or ended")
        })
    }
}

/// Leaf that may be trimmed.
struct Candidate {
    leaf: LeafId,
    guid: u64,
    path: std::path::PathBuf,
    /// Whether the device frees the space that it is told of.
    can_trim: bool,
}

fn trim(
    hands: &mut Hands<'_>,
    request: &Trim,
    path_of: &dyn Fn(u64) -> std::path::PathBuf,
) -> Result<(), String> {
    if let Some(reason) = hands.pool.suspended_because() {
        return Err(format!("the pool takes no changes: {reason}"));
    }
    let tops = hands.pool.status().top_levels.into_iter();
    let tops = tops.filter(|top| top.class == Class::Normal && top.kind != TopLevelKind::Hole);
    let leaves = tops.flat_map(|top| top.slots).flat_map(|slot| slot.leaves);
    let all: Vec<Candidate> = leaves
        .map(|leaf| Candidate {
            leaf: leaf.leaf,
            guid: leaf.guid,
            path: path_of(leaf.guid),
            can_trim: (hands.devices.of(leaf.leaf))
                .is_some_and(|device| device.geometry().discard > 0),
        })
        .collect();
    let mut chosen: Vec<&Candidate> = Vec::new();
    for word in &request.devices {
        let mut meant = all.iter().filter(|of| is_meant(word, of.guid, &of.path));
        match (meant.next(), meant.next()) {
            (Some(one), None) => chosen.push(one),
            (Some(_), Some(_)) => {
                return Err(format!("several devices of the pool are called {word}"));
            }
            (None, _) => {
                return Err(format!(
                    "{word} is not one of the pool's devices for blocks; only these can be trimmed"
                ));
            }
        }
    }
    let is_all = chosen.is_empty();
    if is_all {
        chosen.extend(&all);
    }
    let mut refusals: BTreeSet<String> = BTreeSet::new();
    let mut may = Vec::new();
    for one in chosen {
        match check(hands, one, request.action) {
            Ok(()) => may.push(one.leaf),
            Err(refused) if is_all => drop(refusals.insert(refused.to_string())),
            Err(refused) => return Err(format!("{}: {refused}", one.path.display())),
        }
    }
    if may.is_empty() {
        let reasons: Vec<String> = refusals.into_iter().collect();
        return Err(reasons.join("; "));
    }
    for leaf in may {
        let now_us = hands.now_us;
        let done = match request.action {
            TrimAction::Start => hands.pool.start_trim(leaf, request.rate, now_us),
            TrimAction::Pause => hands.pool.pause_trim(leaf, now_us),
            TrimAction::Cancel => hands.pool.cancel_trim(leaf, now_us),
        };
        done.map_err(|refused| refused.to_string())?;
    }
    Ok(())
}

/// Checks whether the action is possible on a device.
fn check(hands: &Hands<'_>, one: &Candidate, action: TrimAction) -> Result<(), TrimRefused> {
    let trims = hands.pool.trims();
    let state = trims
        .iter()
        .find(|trim| trim.leaf == one.guid)
        .map(|trim| trim.state);
    match (action, state) {
        (TrimAction::Start, Some(TrimState::Running)) => Err(TrimRefused::Running),
        (TrimAction::Start, _) if !hands.pool.uses(one.leaf) => Err(TrimRefused::Away),
        (TrimAction::Start, _) if !one.can_trim => Err(TrimRefused::Unable),
        (TrimAction::Start, _)
        | (TrimAction::Pause, Some(TrimState::Running))
        | (TrimAction::Cancel, Some(TrimState::Running | TrimState::Suspended)) => Ok(()),
        (TrimAction::Pause | TrimAction::Cancel, _) => Err(TrimRefused::NotRunning),
    }
}
