//! Streams of snapshots to and from other pools ([`store::stream`]): the way between an open pool
//! and the carrier of the bytes.
//!
//! | subject | file |
//! |---|---|
//! | the snapshots of a stream, and the base of each | `package.rs` |
//! | the snapshots of all volumes of a folder, so that clones stay clones | `replication.rs` |
//! | the size of a stream, and reading it from the pool | `send.rs` |
//! | properties that the receiving side decides itself | `overrides.rs` |
//! | receiving a stream into a pool, and the rest of a failed receive | `receive.rs` |

mod overrides;
mod package;
mod receive;
mod replication;
mod send;

#[cfg(test)]
mod tests;

use store::catalog::{Catalog, CatalogError, Operation};
use store::engine::{Answer, PoolError, Request};
use store::format::DatasetId;

pub use receive::{Begins, Receiver, WhileServed};
pub use send::Sender;

use super::dataset::administer;
use super::registry::OpenPool;
use crate::pool_thread::PoolThread;

/// Start of the tags of the holds that streams set while they are sent.
const HOLD: &str = ".send-";

/// Removes the remains of interrupted streams: parts that were not to be resumed, and holds of
/// senders that no longer exist. If the pool cannot do so now, it can when it is opened the next
/// time.
pub(super) fn forget_interrupted(pool: &OpenPool) {
    if pool.host.is_read_only() {
        return;
    }
    let found = pool.host.ask(|pool| {
        let catalog = pool.catalog();
        let receiving = catalog.receiving_volumes().into_iter();
        let given_up: Vec<DatasetId> = receiving
            .filter(|id| catalog.receiving(*id).is_some_and(|of| !of.is_resumable))
            .collect();
        let holds = catalog.datasets().filter_map(|dataset| {
            let holds = dataset.as_snapshot()?.holds.keys();
            let tags = holds.filter(|tag| tag.starts_with(HOLD)).cloned();
            Some((dataset.id, tags.collect::<Vec<String>>()))
        });
        (given_up, holds.collect::<Vec<_>>())
    });
    let Ok((given_up, holds)) = found else { return };
    let name = pool.host.name();
    for volume in given_up {
        let step = move |catalog: &Catalog| catalog.plan_abort_receive(volume, None);
        if let Err(error) = apply(pool, step) {
            tracing::warn!(pool = name, %error, "an incomplete receive could not be removed");
        }
    }
    for (snapshot, tags) in holds {
        for tag in tags {
            release(pool, vec![snapshot], &tag);
        }
    }
}

/// Releases a hold from the snapshots that have it.
fn release(pool: &OpenPool, snapshots: Vec<DatasetId>, tag: &str) {
    if snapshots.is_empty() {
        return;
    }
    let name = pool.host.name();
    let wanted = tag.to_owned();
    let released = apply(pool, move |catalog| {
        let has = |id: &DatasetId| {
            let snapshot = catalog.dataset(*id).and_then(|of| of.as_snapshot());
            snapshot.is_some_and(|of| of.holds.contains_key(&wanted))
        };
        let snapshots = snapshots.into_iter().filter(has).collect();
        Ok(Operation::Release {
            snapshots,
            tag: wanted,
        })
    });
    if let Err(error) = released {
        tracing::warn!(pool = name, tag, %error, "the hold of a stream could not be released");
    }
}

/// Changes datasets by the state of the catalogue at that moment.
fn apply(
    pool: &OpenPool,
    step: impl FnOnce(&Catalog) -> Result<Operation, CatalogError> + Send + 'static,
) -> Result<(), model::Error> {
    administer(pool, Box::new(move |catalog, _| step(catalog)))
}

/// Sends a request to the engine and waits for the answer.
fn ask(host: &PoolThread, request: Request) -> Result<Answer, PoolError> {
    let answer = host.begin(request).recv();
    answer.unwrap_or_else(|_| Err(host.ended()))
}
