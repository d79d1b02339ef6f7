//! Limits of VMW_PSP_RR. `esxcli storage nmp psp roundrobin deviceconfig` gets and sets them, and
//! claim rules contain them (`-O "iops=1"`).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::rule_error::RuleError;

/// Limits of round robin that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LimitType {
    /// Limits of I/Os and of bytes; the one reached first decides.
    #[default]
    Default,
    /// Limit of I/Os only.
    Iops,
    /// Limit of bytes only.
    Bytes,
}

impl LimitType {
    /// Returns the name that `deviceconfig get` shows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "Default",
            Self::Iops => "Iops",
            Self::Bytes => "Bytes",
        }
    }

    /// Finds the type of this name (`-t iops`), in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Default, Self::Iops, Self::Bytes]
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(name))
    }
}

/// Rules by which round robin moves from path to path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RoundRobin {
    /// Limits that count.
    pub limit_type: LimitType,
    /// I/Os down a path before the next one; at least 1.
    pub iops: u32,
    /// Bytes down a path before the next one; at least 1.
    pub bytes: u64,
    /// Use active/non-optimized paths beside optimized ones.
    pub use_ano: bool,
}

impl Default for RoundRobin {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl RoundRobin {
    /// ESXi's default limits.
    pub const DEFAULT: Self = Self {
        limit_type: LimitType::Default,
        iops: 1000,
        bytes: 10_485_760,
        use_ano: false,
    };

    /// Applies options: `iops=1`, `bytes=8800`, `policy=iops`, `useANO=1`, several separated by
    /// comma or semicolon. As in ESXi, a limit does not change the type: after `iops=1` the type is
    /// still "Default", with 1.
    pub fn with_options(mut self, options: &str) -> Result<Self, RuleError> {
        let each = options.split([',', ';']).map(str::trim);
        for option in each.filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').ok_or_else(|| {
                RuleError::invalid(
                    format!("PSP option '{option}' is not NAME=VALUE"),
                    "write for example iops=1",
                )
            })?;
            self.set(name.trim(), value.trim())?;
        }
        Ok(self)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), RuleError> {
        let refused = |next: &str| RuleError::invalid(format!("{name}={value} is refused"), next);
        match name.to_ascii_lowercase().as_str() {
            "iops" => match value.parse() {
                Ok(iops) if iops > 0 => self.iops = iops,
                _ => return Err(refused("give a number of I/Os from 1 to 4294967295")),
            },
            "bytes" => match value.parse() {
                Ok(bytes) if bytes > 0 => self.bytes = bytes,
                _ => return Err(refused("give a number of bytes, 1 or more")),
            },
            "policy" | "type" => match value.to_ascii_lowercase().as_str() {
                "rr" => self.limit_type = LimitType::Default,
                other => match LimitType::from_name(other) {
                    Some(kind) => self.limit_type = kind,
                    None if other == "latency" => {
                        return Err(refused(
                            "to select paths by latency, use the PSP SANDSTONE_PSP_LOWEST_LATENCY",
                        ));
                    }
                    None => return Err(refused("choose rr, iops or bytes")),
                },
            },
            "useano" => match value {
                "0" | "false" => self.use_ano = false,
                "1" | "true" => self.use_ano = true,
                _ => return Err(refused("give 0 or 1")),
            },
            _ => {
                return Err(RuleError::invalid(
                    format!("VMW_PSP_RR has no option '{name}'"),
                    "use iops, bytes, policy or useANO",
                ));
            }
        }
        Ok(())
    }
}
