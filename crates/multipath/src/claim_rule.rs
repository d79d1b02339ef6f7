//! One SATP claim rule: its criteria, its effects, and the reading of the options of `esxcli
//! storage nmp satp rule add`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::path::PathIdentity;
use super::path_selection::Psp;
use super::round_robin::RoundRobin;
use super::rule_error::RuleError;
use super::satp::Satp;

/// Transport of every path here (`-R`).
pub const TRANSPORT: &str = "iscsi";
/// Driver of every path here (`-D`).
pub const DRIVER: &str = "sandstone";

/// Condition of a rule: the device must have target port groups (ALUA), or must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClaimOption {
    /// The rule claims a device only if TPGS is not zero.
    TpgsOn,
    /// The rule claims a device only if TPGS is zero.
    TpgsOff,
}

impl ClaimOption {
    /// Returns the name in the column "Claim Options".
    pub fn name(self) -> &'static str {
        match self {
            Self::TpgsOn => "tpgs_on",
            Self::TpgsOff => "tpgs_off",
        }
    }
}

/// A claim rule. An empty text matches everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRule {
    /// Storage array type that the rule assigns.
    pub satp: Satp,
    /// Name of one device (`naa.…`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// T10 vendor, or `^PREFIX*`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vendor: String,
    /// Product identification, or `^PREFIX*`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Driver of the paths.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub driver: String,
    /// Transport of the paths.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub transport: String,
    /// Condition about ALUA, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_option: Option<ClaimOption>,
    /// Path selection, if it differs from the default of the array type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psp: Option<Psp>,
    /// Options of the path selection, as [`RoundRobin::with_options`] reads them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub psp_options: String,
    /// Description for administrators.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// Options of `satp rule add` as typed. Options that were not given are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RuleText {
    /// Option `-s`.
    pub satp: String,
    /// Option `-d`.
    pub device: String,
    /// Option `-V`.
    pub vendor: String,
    /// Option `-M`.
    pub model: String,
    /// Option `-D`.
    pub driver: String,
    /// Option `-R`.
    pub transport: String,
    /// Option `-c`.
    pub claim_option: String,
    /// Option `-P`.
    pub psp: String,
    /// Option `-O`.
    pub psp_option: String,
    /// Option `-e`.
    pub description: String,
}

impl ClaimRule {
    /// Reads a user's rule. Refuses a rule that could never claim a device, contradicts itself, or
    /// would claim everything.
    pub fn parse(text: &RuleText) -> Result<Self, RuleError> {
        let rule = Self {
            satp: parse_satp(&text.satp)?,
            device: parse_device(&text.device)?,
            // The widths come from the standard INQUIRY data (SPC-4 6.6.2).
            vendor: parse_pattern("vendor", &text.vendor, 8)?,
            model: parse_pattern("model", &text.model, 16)?,
            driver: only("driver", &text.driver, DRIVER)?,
            transport: only("transport", &text.transport, TRANSPORT)?,
            claim_option: parse_claim_option(&text.claim_option)?,
            psp: parse_psp(&text.psp)?,
            psp_options: text.psp_option.trim().to_owned(),
            description: text.description.trim().to_owned(),
        };
        rule.check_criteria()?;
        if !rule.psp_options.is_empty() {
            RoundRobin::default().with_options(&rule.psp_options)?;
            let psp = rule.psp.unwrap_or_else(|| rule.satp.default_psp());
            if psp != Psp::RoundRobin {
                return Err(RuleError::invalid(
                    format!("{} has no options", psp.name()),
                    "add -P VMW_PSP_RR, or omit -O",
                ));
            }
        }
        Ok(rule)
    }

    fn check_criteria(&self) -> Result<(), RuleError> {
        let by_model = !self.vendor.is_empty() || !self.model.is_empty();
        if !self.device.is_empty() && (by_model || !self.driver.is_empty()) {
            return Err(RuleError::invalid(
                "a rule for one device cannot also have a vendor, model or driver",
                "give either -d, or -V and -M, or -D",
            ));
        }
        if !self.driver.is_empty() && by_model {
            return Err(RuleError::invalid(
                "a rule for a driver cannot also have a vendor or model",
                "give either -D, or -V and -M",
            ));
        }
        let anything = self.device.is_empty()
            && !by_model
            && self.driver.is_empty()
            && self.transport.is_empty()
            && self.claim_option.is_none();
        if anything {
            return Err(RuleError::invalid(
                "the rule would claim every device",
                "give at least one of -V, -M, -d, -D, -R and -c",
            ));
        }
        if self.satp.is_alua() && self.claim_option == Some(ClaimOption::TpgsOff) {
            return Err(RuleError::invalid(
                format!("{} never claims a device with tpgs_off", self.satp.name()),
                "use tpgs_on, or VMW_SATP_DEFAULT_AA",
            ));
        }
        Ok(())
    }

    /// Reports whether the rule claims this device. A rule of a type with ALUA never claims a
    /// device without target port groups. A rule of a type that is not loaded claims no device.
    pub fn matches(&self, device: &str, identity: &PathIdentity) -> bool {
        let alua = identity.tpgs != 0;
        let tpgs = match self.claim_option {
            None => true,
            Some(ClaimOption::TpgsOn) => alua,
            Some(ClaimOption::TpgsOff) => !alua,
        };
        tpgs && self.satp.is_loaded()
            && (alua || !self.satp.is_alua())
            && (self.device.is_empty() || self.device.eq_ignore_ascii_case(device))
            && matches_text(&self.vendor, &identity.vendor)
            && matches_text(&self.model, &identity.model)
            && (self.driver.is_empty() || self.driver == DRIVER)
            && (self.transport.is_empty() || self.transport == TRANSPORT)
    }

    /// Orders the rules of one group: the greater rule wins. As in ESXi, device goes before driver
    /// before vendor and model before transport. A whole name goes before a pattern, and a longer
    /// pattern before a shorter one.
    pub(super) fn specificity(&self) -> impl Ord + use<> {
        (
            !self.device.is_empty(),
            !self.driver.is_empty(),
            text_specificity(&self.vendor),
            text_specificity(&self.model),
            self.claim_option.is_some(),
            !self.transport.is_empty(),
        )
    }

    /// Reports whether both rules claim the same devices.
    pub(super) fn has_criteria_of(&self, other: &Self) -> bool {
        self.device == other.device
            && self.vendor == other.vendor
            && self.model == other.model
            && self.driver == other.driver
            && self.transport == other.transport
            && self.claim_option == other.claim_option
    }

    /// Describes the criteria in words: `vendor SUN model COMSTAR`.
    pub fn criteria(&self) -> String {
        let option = self.claim_option.map_or("", ClaimOption::name);
        let all = [
            ("device", self.device.as_str()),
            ("vendor", &self.vendor),
            ("model", &self.model),
            ("driver", &self.driver),
            ("transport", &self.transport),
            ("claim option", option),
        ];
        let given: Vec<_> = all
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        given.join(" ")
    }
}

fn parse_satp(text: &str) -> Result<Satp, RuleError> {
    let text = text.trim();
    let Some(satp) = Satp::from_name(text) else {
        let loaded = Satp::ALL.into_iter().filter(|satp| satp.is_loaded());
        let names: Vec<_> = loaded.map(Satp::name).collect();
        return Err(RuleError::invalid(
            match text {
                "" => "the rule has no storage array type".to_owned(),
                _ => format!("there is no storage array type '{text}'"),
            },
            format!("give with -s one of {}", names.join(", ")),
        ));
    };
    if satp.is_loaded() {
        return Ok(satp);
    }
    Err(RuleError::invalid(
        format!(
            "{} needs commands of its vendor, which Sandstone does not support",
            satp.name()
        ),
        "switch the array to ALUA and use VMW_SATP_ALUA",
    ))
}

fn parse_psp(text: &str) -> Result<Option<Psp>, RuleError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let names: Vec<_> = Psp::ALL.into_iter().map(Psp::name).collect();
    Psp::from_name(text).map(Some).ok_or_else(|| {
        RuleError::invalid(
            format!("there is no path selection policy '{text}'"),
            format!("give with -P one of {}", names.join(", ")),
        )
    })
}

fn parse_claim_option(text: &str) -> Result<Option<ClaimOption>, RuleError> {
    match text.trim() {
        "" => Ok(None),
        "tpgs_on" => Ok(Some(ClaimOption::TpgsOn)),
        "tpgs_off" => Ok(Some(ClaimOption::TpgsOff)),
        other => Err(RuleError::invalid(
            format!("there is no claim option '{other}'"),
            "use tpgs_on or tpgs_off",
        )),
    }
}

fn parse_device(text: &str) -> Result<String, RuleError> {
    let text = text.trim();
    let kinds = ["naa.", "eui.", "t10."];
    let known = kinds.iter().any(|kind| text.starts_with(kind));
    if text.is_empty() || known && text.len() > 4 {
        return Ok(text.to_owned());
    }
    Err(RuleError::invalid(
        format!("'{text}' is not the name of a device"),
        "give a name that starts with naa., eui. or t10., as listings show it",
    ))
}

/// Reads a criterion for which only one value is possible here.
fn only(what: &str, text: &str, value: &str) -> Result<String, RuleError> {
    let text = text.trim();
    if text.is_empty() || text == value {
        return Ok(text.to_owned());
    }
    Err(RuleError::invalid(
        format!("no path has the {what} '{text}'"),
        format!("the {what} of all paths is '{value}'; use it, or omit it"),
    ))
}

/// Reads a name of the INQUIRY data, or `^PREFIX*`.
fn parse_pattern(what: &str, text: &str, longest: usize) -> Result<String, RuleError> {
    let text = text.trim();
    let name = prefix(text).unwrap_or(text);
    let printable = name.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if !printable || name.contains(['^', '*']) {
        return Err(RuleError::invalid(
            format!("'{text}' is neither a {what} nor a pattern"),
            format!("write the {what} as listings show it, or ^abc* for all that start with abc"),
        ));
    }
    if name.len() > longest {
        return Err(RuleError::invalid(
            format!(
                "the {what} '{name}' is longer than a device can report ({longest} characters)"
            ),
            format!("write the {what} as listings show it"),
        ));
    }
    Ok(text.to_owned())
}

/// Returns the prefix of a pattern `^PREFIX*`.
fn prefix(pattern: &str) -> Option<&str> {
    pattern.strip_prefix('^')?.strip_suffix('*')
}

fn matches_text(pattern: &str, value: &str) -> bool {
    match prefix(pattern) {
        Some(start) => value.starts_with(start),
        None => pattern.is_empty() || pattern == value,
    }
}

/// Returns 0 for a pattern that matches everything, more for longer patterns, and most for names.
fn text_specificity(pattern: &str) -> usize {
    match prefix(pattern) {
        Some(start) => 1 + start.len(),
        None if pattern.is_empty() => 0,
        None => usize::MAX,
    }
}
