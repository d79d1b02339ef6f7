//! Preview of a change: whether it is possible, and what a destruction takes with it.

use std::collections::BTreeSet;

use store::catalog::{DatasetKind, Operation};
use store::engine::Pool;
use store::format::DatasetId;

use super::change::steps;
use super::creation::with_what_is_made;
use super::there::already_there;
use super::{check_all, failed, with_block_size};
use crate::registry::Pools;
use crate::served_datasets::Served;
use model::Error;
use model::pool::dataset::change::DatasetChange;
use model::pool::dataset::{Changed, Doomed};

impl Pools {
    /// Describes the effects of a change, and changes nothing.
    ///
    /// # Errors
    /// The errors of [`Pools::change`].
    pub fn preview(&self, change: &DatasetChange, served: &Served) -> Result<Changed, Error> {
        let pool = self.get(change.pool()?)?;
        let mut change = with_what_is_made(change)?;
        if let Some(unchanged) = already_there(&pool, &change)? {
            return Ok(unchanged);
        }
        let mut changed = with_block_size(&pool, &mut change)?;
        let steps = steps(&change)?;
        let number = pool.guid;
        // Units that serve the dataset are listed, and nothing is refused.
        let asked = pool.host.ask(move |pool| {
            let operations = check_all(pool, number, &steps, &Served::default())?;
            let destroyed = operations.iter().find_map(|operation| match operation {
                Operation::Destroy { ids } => Some(ids.iter().copied().collect()),
                Operation::Rollback { destroy, .. } => Some(destroy.iter().copied().collect()),
                _ => None,
            });
            let doomed: BTreeSet<DatasetId> = destroyed.unwrap_or_default();
            Ok::<_, Error>((named(pool, &doomed), freed(pool, &doomed)))
        });
        (changed.destroyed, changed.freed) = asked.map_err(|error| failed(&error))??;
        for doomed in &mut changed.destroyed {
            doomed.units = served.units_of(&doomed.name);
        }
        Ok(changed)
    }
}

fn named(pool: &Pool, doomed: &BTreeSet<DatasetId>) -> Vec<Doomed> {
    let catalog = pool.catalog();
    let all = catalog.listing(store::catalog::ROOT).into_iter();
    let all = all.filter(|dataset| doomed.contains(&dataset.id));
    let all = all.map(|dataset| Doomed {
        name: catalog.full_name(dataset.id),
        kind: dataset.kind.as_str().to_owned(),
        units: Vec::new(),
    });
    all.collect()
}

/// Returns a lower bound of the bytes that become free. Bytes that only several doomed snapshots
/// share are not counted if their volume stays.
fn freed(pool: &Pool, doomed: &BTreeSet<DatasetId>) -> u64 {
    let (catalog, usage) = (pool.catalog(), pool.usage());
    let all = doomed.iter().filter_map(|id| {
        let (dataset, usage) = (catalog.dataset(*id)?, usage.get(id)?);
        match dataset.kind {
            DatasetKind::Folder => None,
            // The snapshots of the volume go with it.
            DatasetKind::Volume(_) => Some(usage.used),
            DatasetKind::Snapshot(_) if doomed.contains(&dataset.parent) => None,
            DatasetKind::Snapshot(_) => Some(usage.used),
        }
    });
    all.sum()
}
