//! Endpoints for the configuration as a whole.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoints;
use crate::answer::ConfigDocument;
use crate::transaction::{Commit, Committed};
use config::backup::Backup;
use config::change::SetDiscovery;
use config::history::GenerationView;
use model::Config;

const CONFIG: &str = "/v1/config";
const BACKUP: &str = "/v1/config/backup";

endpoints! {
    "config":
    /// Returns the configuration in force.
    SHOW = Viewer GET CONFIG "config_show" ((), ()) -> ConfigDocument;
    /// Returns the whole configuration of this machine with its secrets, as a backup. Only the
    /// control socket gives it, so that secrets never cross a network.
    EXPORT = Admin GET BACKUP "config_export" ((), ()) -> Backup;
    /// Restores a backup on a machine that serves nothing yet. Its pools, disks and addresses may
    /// come later.
    RESTORE = Admin PUT BACKUP "config_restore" (Commit, Backup) -> Committed;
    /// Puts this configuration into force. Identities and secrets that it omits are kept.
    APPLY = Admin PUT CONFIG "config_apply" (Commit, Apply) -> Committed;
    /// Sets the rules for discovery sessions, in which initiators ask for targets.
    SET_DISCOVERY = Admin PUT "/v1/discovery" "config_set_discovery" (Commit, SetDiscovery) -> Committed;
    /// Lists the generations that are kept, in ascending order, with their times, authors and
    /// changes. All but the one in force can be restored.
    GENERATIONS = Viewer GET "/v1/config/generations" "config_generations" ((), ()) -> Vec<GenerationView>;
    /// Puts an earlier generation into force again, as a new generation.
    ROLLBACK = Admin POST "/v1/config/generations/{generation}/rollback" "config_rollback" (Commit, ())
        -> Committed;
}

/// A configuration to put in force: either TOML or JSON.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Apply {
    /// A TOML document, in the form that `GET /v1/config` returns.
    Toml(String),
    /// The configuration as JSON.
    Config(Box<Config>),
}
