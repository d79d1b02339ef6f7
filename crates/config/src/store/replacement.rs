//! Replaces the configuration in a folder that no daemon uses, by an earlier generation or a
//! backup.

use std::path::Path;

use super::super::diff::{Difference, diff};
use super::super::history::{Note, NotedChange};
use super::super::identity::{self, Seed};
use super::{Store, open};
use model::config::Config;
use model::error::Error;

/// Configuration for a folder that no daemon uses.
#[derive(Debug)]
pub enum Replacement {
    /// Configuration of a generation that is kept.
    Generation(u64),
    /// Configuration of a backup.
    Backup(Box<Config>),
}

/// Outcome of a replacement, or of its preview.
#[derive(Debug)]
pub struct Replaced {
    /// New configuration.
    pub config: Config,
    /// Differences from the previous configuration.
    pub differences: Vec<Difference>,
}

impl Replaced {
    fn of(before: &Config, config: Config) -> Self {
        Self {
            differences: diff(before, &config),
            config,
        }
    }
}

impl Store {
    /// Puts another configuration in force in a folder that no daemon uses. It is the way out when
    /// `config.toml` is damaged, and brings a backup to a bare machine. A damaged file is kept as
    /// `config.toml.damaged`. Without `by`, the call only reports what would change.
    ///
    /// # Errors
    /// A daemon uses the folder, the generation does not exist, or the folder cannot be written.
    /// Nothing has changed.
    pub fn replace(
        folder: &Path,
        wanted: &Replacement,
        by: Option<NotedChange>,
    ) -> Result<Replaced, Error> {
        if let (Replacement::Backup(config), None, false) = (wanted, &by, folder.exists()) {
            return Ok(Replaced::of(&Config::default(), Config::clone(config)));
        }
        let mut store = Self::lock(folder)?;
        let mut config = match wanted {
            Replacement::Generation(generation) => store.generation(*generation)?,
            Replacement::Backup(config) => Config::clone(config),
        };
        let found = store.file.load(|bytes| open(bytes, Some(&store.vault)));
        let newest = found.content.map(|(_, newest)| newest);
        match (&newest, wanted) {
            (Some(newest), _) => identity::carry_over(&newest.identity, &mut config),
            // The backup's machine may live on. Two machines of one name would take each other's
            // pools for their own.
            (None, Replacement::Backup(_)) if store.orphan().is_none() => {
                let new = identity::new_installation(&mut Seed::random()?);
                identity::carry_over(&new, &mut config);
            }
            (None, _) => {}
        }
        let before = newest.unwrap_or_default();
        let mut replaced = Replaced::of(&before, config);
        let Some(by) = by else {
            return Ok(replaced);
        };
        if found.trouble.is_some() {
            store.file.put_right(None);
        }
        // The new number is above every number that was ever in force, including the damaged
        // file's.
        let highest = before.generation.max(store.file.next_generation() - 1);
        replaced.config.generation = highest + u64::from(found.trouble.is_some()) + 1;
        let note = Note::of(vec![by.touching(&replaced.differences)]);
        store.save(&replaced.config, &note)?;
        Ok(replaced)
    }
}
