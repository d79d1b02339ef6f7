//! Routes for the configuration as a whole.

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
    SHOW = GET CONFIG "config_show" ((), ()) -> ConfigDocument;
    EXPORT = GET BACKUP "config_export" ((), ()) -> Backup;
    RESTORE = PUT BACKUP "config_restore" (Commit, Backup) -> Committed;
    APPLY = PUT CONFIG "config_apply" (Commit, Apply) -> Committed;
    SET_DISCOVERY = PUT "/v1/discovery" "config_set_discovery" (Commit, SetDiscovery) -> Committed;
    GENERATIONS = GET "/v1/config/generations" "config_generations" ((), ()) -> Vec<GenerationView>;
    ROLLBACK = POST "/v1/config/generations/{generation}/rollback" "config_rollback" (Commit, ()) -> Committed;
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
