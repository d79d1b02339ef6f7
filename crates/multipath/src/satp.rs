//! Storage array types (SATP): the behaviour of an array's paths, and its default path selection.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::path_selection::Psp;

/// A storage array type plug-in by ESXi's name.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[allow(
    missing_docs,
    reason = "each is a name of ESXi's, described by description()"
)]
pub enum Satp {
    #[serde(rename = "VMW_SATP_ALUA")]
    Alua,
    #[serde(rename = "VMW_SATP_MSA")]
    Msa,
    #[serde(rename = "VMW_SATP_DEFAULT_AP")]
    DefaultAp,
    #[serde(rename = "VMW_SATP_SVC")]
    Svc,
    #[serde(rename = "VMW_SATP_EQL")]
    Eql,
    #[serde(rename = "VMW_SATP_INV")]
    Inv,
    #[serde(rename = "VMW_SATP_EVA")]
    Eva,
    #[serde(rename = "VMW_SATP_ALUA_CX")]
    AluaCx,
    #[serde(rename = "VMW_SATP_SYMM")]
    Symm,
    #[serde(rename = "VMW_SATP_CX")]
    Cx,
    #[serde(rename = "VMW_SATP_LSI")]
    Lsi,
    #[serde(rename = "VMW_SATP_DEFAULT_AA")]
    DefaultAa,
    #[serde(rename = "VMW_SATP_LOCAL")]
    Local,
}

impl Satp {
    /// All types, in the order of `esxcli storage nmp satp list`.
    pub const ALL: [Self; 13] = [
        Self::Alua,
        Self::Msa,
        Self::DefaultAp,
        Self::Svc,
        Self::Eql,
        Self::Inv,
        Self::Eva,
        Self::AluaCx,
        Self::Symm,
        Self::Cx,
        Self::Lsi,
        Self::DefaultAa,
        Self::Local,
    ];

    /// Returns ESXi's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alua => "VMW_SATP_ALUA",
            Self::Msa => "VMW_SATP_MSA",
            Self::DefaultAp => "VMW_SATP_DEFAULT_AP",
            Self::Svc => "VMW_SATP_SVC",
            Self::Eql => "VMW_SATP_EQL",
            Self::Inv => "VMW_SATP_INV",
            Self::Eva => "VMW_SATP_EVA",
            Self::AluaCx => "VMW_SATP_ALUA_CX",
            Self::Symm => "VMW_SATP_SYMM",
            Self::Cx => "VMW_SATP_CX",
            Self::Lsi => "VMW_SATP_LSI",
            Self::DefaultAa => "VMW_SATP_DEFAULT_AA",
            Self::Local => "VMW_SATP_LOCAL",
        }
    }

    /// Finds the type of this name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|satp| satp.name().eq_ignore_ascii_case(name))
    }

    /// Returns the path selection of a device whose rule has none of its own.
    pub fn default_psp(self) -> Psp {
        match self {
            Self::Alua | Self::Msa | Self::DefaultAp | Self::Cx | Self::Lsi => Psp::Mru,
            Self::Svc | Self::Eql | Self::Inv | Self::Eva | Self::DefaultAa | Self::Local => {
                Psp::Fixed
            }
            Self::AluaCx | Self::Symm => Psp::RoundRobin,
        }
    }

    /// Reports whether Sandstone can serve arrays of this type. Other arrays have controllers that
    /// switch over only by commands of their vendor; no rule of theirs claims a device.
    pub fn is_loaded(self) -> bool {
        matches!(
            self,
            Self::Alua | Self::AluaCx | Self::DefaultAa | Self::Symm | Self::Eql | Self::Local
        )
    }

    /// Reports whether access states (ALUA) decide which paths are used.
    pub fn is_alua(self) -> bool {
        matches!(self, Self::Alua | Self::AluaCx)
    }

    /// Returns the last column of `satp list`.
    pub fn description(self) -> &'static str {
        match self {
            Self::Alua => "Supports non-specific arrays that use the ALUA protocol",
            Self::AluaCx => "Supports EMC CX that use the ALUA protocol",
            Self::Symm => "Supports EMC Symmetrix",
            Self::Eql => "Supports EqualLogic arrays",
            Self::DefaultAa => "Supports non-specific active/active arrays",
            Self::Local => "Supports direct attached devices",
            _ => "Placeholder (plugin not loaded)",
        }
    }
}
