//! Facts that a volume's pool tells: space, properties, and whether it takes changes.
//!
//! Several threads ask, and none waits for another. So each answer has a number, and an older
//! answer never replaces a newer one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use store::engine::{DatasetSpace, Recipe};

use super::{NO_RECIPE, PoolVolume, durability};
use crate::order::Awaiting;
use block::{BlockError, BlockErrorKind, Durability, PoolSpace, Usage};

/// Answers of the pool so far.
#[derive(Debug, Default)]
pub(super) struct AskedFacts {
    /// Number of answers. The pool's thread counts them.
    answers: Arc<AtomicU64>,
    noted: Mutex<Noted>,
}

/// Numbers of the newest answers that were noted.
#[derive(Debug, Default)]
struct Noted {
    properties: u64,
    size: u64,
}

/// Answer of the pool about a volume.
#[derive(Debug)]
pub(super) struct Facts {
    number: u64,
    space: DatasetSpace,
    durability: Durability,
    is_readonly: bool,
    recipe: Option<Recipe>,
    name: String,
    /// Reason why the pool takes no changes.
    pub(super) suspended: Option<String>,
}

impl Facts {
    pub(super) fn usage(&self) -> Usage {
        Usage {
            allocated: self.space.referenced,
            pool: Some(PoolSpace {
                available: self.space.available,
                capacity: self.space.capacity,
            }),
        }
    }
}

impl PoolVolume {
    /// Queries the pool. There is no answer if the volume was destroyed.
    pub(super) fn ask_facts(&self) -> Awaiting<Option<Facts>> {
        let (dataset, block_size) = (self.dataset, self.block_size);
        let answers = Arc::clone(&self.asked.answers);
        self.host.begin_ask(move |pool| {
            let settings = pool.catalog().settings(dataset);
            Some(Facts {
                number: answers.fetch_add(1, Ordering::Relaxed) + 1,
                space: pool.dataset_space(dataset)?,
                durability: durability(settings.sync),
                is_readonly: settings.is_readonly,
                recipe: Recipe::of(&settings, block_size),
                name: pool.catalog().full_name(dataset),
                suspended: pool.suspended_because().map(str::to_owned),
            })
        })
    }

    /// Waits for the answer, and notes the properties.
    pub(super) fn note(&self, asked: Awaiting<Option<Facts>>) -> Result<Facts, BlockError> {
        let facts = asked
            .wait()
            .map_err(|error| self.gone(&error))?
            .ok_or_else(|| {
                let context = format!("{} was destroyed", self.name());
                BlockError::new(BlockErrorKind::Gone, context)
            })?;
        let noted = self.asked.noted.lock();
        let mut noted = noted.unwrap_or_else(PoisonError::into_inner);
        if facts.number > noted.properties {
            noted.properties = facts.number;
            self.durability
                .store(facts.durability as u8, Ordering::Relaxed);
            self.is_readonly.store(facts.is_readonly, Ordering::Relaxed);
            let recipe = facts.recipe.map_or(NO_RECIPE, Recipe::to_bits);
            self.recipe.store(recipe, Ordering::Relaxed);
            self.name().clone_from(&facts.name);
        }
        Ok(facts)
    }

    /// Waits for the answer, and notes the properties and the size.
    pub(super) fn note_with_size(&self, asked: Awaiting<Option<Facts>>) -> Result<(), BlockError> {
        let facts = self.note(asked)?;
        let noted = self.asked.noted.lock();
        let mut noted = noted.unwrap_or_else(PoisonError::into_inner);
        if facts.number > noted.size {
            noted.size = facts.number;
            self.len.store(facts.space.size, Ordering::Relaxed);
        }
        Ok(())
    }
}
