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
    /// Host of each initiator; `None` if it belongs to none.
    names: HashMap<String, Option<Arc<str>>>,
}

impl HostNames {
    /// Returns the name of the host to which an initiator belongs: of several, the narrowest.
    pub(crate) fn of(&self, config: &Config, initiator: &str) -> Option<Arc<str>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { generation, names } = &mut *known;
        if *generation != config.generation {
            *generation = config.generation;
            names.clear();
        }
        if let Some(name) = names.get(initiator) {
            return name.clone();
        }
        let hosts = access::hosts(config, initiator);
        let name = hosts.first().map(|host| Arc::from(host.name.as_str()));
        names.insert(initiator.to_owned(), name.clone());
        name
    }
}
