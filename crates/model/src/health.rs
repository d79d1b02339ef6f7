//! Health: whether an administrator must act, in one word for people, scripts and alerts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Urgency with which an administrator is needed. The worst of several values is the largest.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Nothing needs an administrator.
    #[default]
    Healthy,
    /// Everything is served as it should be, but an administrator must act to keep it so.
    Attention,
    /// A part is not served, not redundant, or lost.
    Impaired,
}

impl Health {
    /// Returns the exit code of commands that report health. Codes 1 and 2 are left to commands
    /// that failed.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Healthy => 0,
            Self::Attention => 3,
            Self::Impaired => 4,
        }
    }

    /// Returns the word for the health.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Attention => "attention",
            Self::Impaired => "impaired",
        }
    }
}
