//! Volumes of open pools by name and by number: logical units follow their volumes.

use std::collections::BTreeMap;
use std::sync::Arc;

use store::format::DatasetId;

use super::dataset::{failed, refused};
use super::registry::{OpenPool, Pools};
use model::Error;
use model::pool::dataset::name::split;
use model::volume_id::{VolumeId, Volumes};

impl Volumes for Pools {
    fn ids(&self, names: &[String]) -> Vec<Option<VolumeId>> {
        let pools: BTreeMap<String, Arc<OpenPool>> = self.all().into_iter().collect();
        let asked = names.iter().map(|name| {
            let (pool, local) = split(name);
            Some((pools.get(pool)?, local.to_owned()))
        });
        ask_each(asked.collect(), |catalog, local: &String| {
            let found = catalog.find(local).ok()?;
            // A folder has no blocks.
            found.geometry().map(|_| found.id.0)
        })
        .into_iter()
        .map(|answer| {
            let (guid, dataset) = answer?;
            Some(VolumeId::new(guid, dataset))
        })
        .collect()
    }

    fn names(&self, ids: &[VolumeId]) -> Vec<Option<String>> {
        let pools = self.all().into_iter();
        let pools = pools.map(|(_, pool)| (format!("{:016x}", pool.guid), pool));
        let pools: BTreeMap<String, Arc<OpenPool>> = pools.collect();
        let asked = ids
            .iter()
            .map(|id| Some((pools.get(&id.pool)?, DatasetId(id.dataset))));
        ask_each(asked.collect(), |catalog, id: &DatasetId| {
            let found = catalog.dataset(*id).filter(|of| of.geometry().is_some());
            found.map(|_| catalog.full_name(*id))
        })
        .into_iter()
        .map(|answer| answer.map(|(_, name)| name))
        .collect()
    }
}

impl Pools {
    /// Returns the size of a volume in bytes.
    ///
    /// # Errors
    /// No volume has this name, or its pool does not answer.
    pub fn volume_size(&self, name: &str) -> Result<u64, Error> {
        let (pool, local) = split(name);
        let local = local.to_owned();
        let asked = self.get(pool)?.host.ask(move |pool| {
            let found = pool.catalog().find(&local).map_err(refused)?;
            Ok(found.geometry().map_or(0, |(size, _)| size))
        });
        asked.map_err(|error| failed(&error))?
    }
}

/// Pool and its queries, each with its place among all queries.
type Questions<'a, Q> = (&'a Arc<OpenPool>, Vec<(usize, Q)>);

/// Queries each pool once, and returns the answers with the pool's number. `None` means that there
/// is no volume, or that the pool does not answer.
fn ask_each<Q: Send + 'static, A: Send + 'static>(
    asked: Vec<Option<(&Arc<OpenPool>, Q)>>,
    answer: fn(&store::catalog::Catalog, &Q) -> Option<A>,
) -> Vec<Option<(u64, A)>> {
    let mut answers: Vec<Option<(u64, A)>> = asked.iter().map(|_| None).collect();
    let mut by_pool: BTreeMap<u64, Questions<'_, Q>> = BTreeMap::new();
    for (at, question) in asked.into_iter().enumerate() {
        if let Some((pool, question)) = question {
            let of_pool = by_pool
                .entry(pool.guid)
                .or_insert_with(|| (pool, Vec::new()));
            of_pool.1.push((at, question));
        }
    }
    for (guid, (pool, questions)) in by_pool {
        let told = pool.host.ask(move |pool| {
            let catalog = pool.catalog();
            let told = questions.iter().map(|(at, of)| (*at, answer(catalog, of)));
            told.collect::<Vec<_>>()
        });
        for (at, told) in told.unwrap_or_default() {
            answers[at] = told.map(|told| (guid, told));
        }
    }
    answers
}
