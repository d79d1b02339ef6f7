//! Whether somebody has to see to something: one word that people, scripts and alerts act upon.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How urgently somebody is needed. The worst of several is the largest.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Nobody is.
    #[default]
    Healthy,
    /// Everything is served as it should be, and something is to be done so that it stays so.
    Attention,
    /// Something is not served, not redundant, or lost.
    Impaired,
}

impl Health {
    /// The exit code of commands that ask for it; 1 and 2 are those of commands that failed.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Healthy => 0,
            Self::Attention => 3,
            Self::Impaired => 4,
        }
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Attention => "attention",
            Self::Impaired => "impaired",
        }
    }
}
