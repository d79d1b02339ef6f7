//! The configuration as it is served: the same snapshot for every loop, with the units it names.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::config::Config;
use unit::unit::Unit;

/// A snapshot of the configuration. Replaced as a whole, never changed.
#[derive(Debug, Default)]
pub struct Directory {
    /// What was configured.
    pub config: Arc<Config>,
    /// The units, by name: those that are open, and what stands in for the others.
    pub units: BTreeMap<String, Arc<Unit>>,
}
