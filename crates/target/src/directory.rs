//! The configuration as it is served: one snapshot for all loops, with the units that it names.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::config::Config;
use unit::unit::Unit;

/// Snapshot of the configuration. It is replaced as a whole and never changed.
#[derive(Debug, Default)]
pub struct Directory {
    /// Configuration of this snapshot.
    pub config: Arc<Config>,
    /// Units by name: the open ones, and stand-ins for the others.
    pub units: BTreeMap<String, Arc<Unit>>,
}
