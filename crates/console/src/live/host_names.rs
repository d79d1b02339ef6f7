//! Names of hosts for initiators, remembered for each generation of the configuration: patterns of
//! many hosts take time for thousands of sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use config::access;
use model::Config;

/// Hosts by initiator.
#[derive(Debug, Default)]
pub(crate) struct HostNames {
    known: Mutex<Known>,
}

/// Names of one generation of the configuration.
#[derive(Debug, Default)]
struct Known {
    generation: u64,
    /// Hosts of each initiator, the narrowest first.
    names: HashMap<String, Arc<[Arc<str>]>>,
}

impl HostNames {
    /// Returns the name of the host to which an initiator belongs: of several, the narrowest.
    pub(crate) fn of(&self, config: &Config, initiator: &str) -> Option<Arc<str>> {
        self.all(config, initiator).first().cloned()
    }

    /// Returns the names of all hosts to which an initiator belongs, the narrowest first.
    pub(crate) fn all(&self, config: &Config, initiator: &str) -> Arc<[Arc<str>]> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { generation, names } = &mut *known;
        if *generation != config.generation {
            *generation = config.generation;
            names.clear();
        }
        if let Some(all) = names.get(initiator) {
            return Arc::clone(all);
        }
        let hosts = access::hosts(config, initiator);
        let all: Arc<[Arc<str>]> = hosts.iter().map(|it| Arc::from(it.name.as_str())).collect();
        names.insert(initiator.to_owned(), Arc::clone(&all));
        all
    }
}
