//! All SATP claim rules, and the choice of the rule that claims a device. User rules go before
//! system rules; in each group the most specific rule wins.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::claim_rule::{ClaimOption, ClaimRule};
use super::fence_settle;
use super::path::PathIdentity;
use super::path_selection::Psp;
use super::round_robin::RoundRobin;
use super::rule_error::{RuleError, RuleErrorKind};
use super::satp::Satp;
use super::settings::Settings;
use super::system_rules::{SYSTEM_RULES, SystemRule};

/// Group to which a rule belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RuleGroup {
    /// Built-in rules.
    System,
    /// Rules of an administrator, which go before the system's.
    User,
}

impl RuleGroup {
    /// Returns the name in the column "Rule Group".
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
        }
    }
}

/// A claim rule in the columns of `esxcli storage nmp satp rule list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleView {
    /// Storage array type.
    pub satp: String,
    /// Name of one device.
    pub device: String,
    /// T10 vendor.
    pub vendor: String,
    /// Product identification.
    pub model: String,
    /// Driver.
    pub driver: String,
    /// Transport.
    pub transport: String,
    /// Options of the array type.
    pub options: String,
    /// Group: `system` or `user`.
    pub group: String,
    /// Claim option: `tpgs_on` or `tpgs_off`.
    pub claim_options: String,
    /// Path selection.
    pub default_psp: String,
    /// Options of the path selection.
    pub psp_options: String,
    /// Description for administrators.
    pub description: String,
}

/// Administrator's changes to the rules; this part is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRules {
    /// User rules, in order of creation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user: Vec<ClaimRule>,
    /// Path selections that replace ESXi's default for an array type (`satp set -P`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub default_psps: BTreeMap<Satp, Psp>,
}

/// Effect of the rules on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Storage array type of the device.
    pub satp: Satp,
    /// Path selection of the device.
    pub psp: Psp,
    /// Round robin limits of the device.
    pub round_robin: RoundRobin,
    /// Time, in microseconds, for which writes of a lost session may still land after its end was
    /// confirmed. The time depends on the vendor alone; no rule changes it.
    pub fence_settle_us: u64,
    /// Rule that claims the device. If `None`, no rule matched and the default of the transport
    /// holds.
    pub rule: Option<(RuleGroup, ClaimRule)>,
}

impl Claim {
    /// Returns `settings` with the values that the rule decides.
    pub fn apply(&self, settings: Settings) -> Settings {
        Settings {
            satp: self.satp,
            psp: self.psp,
            round_robin: self.round_robin,
            fence_settle_us: self.fence_settle_us,
            ..settings
        }
    }
}

impl ClaimRules {
    /// Finds the rule that claims a device of this name, and returns its effect.
    pub fn claim(&self, device: &str, identity: &PathIdentity) -> Claim {
        let user = most_specific(self.user.iter(), device, identity);
        let system = || {
            let rules: Vec<_> = SYSTEM_RULES.iter().map(SystemRule::rule).collect();
            most_specific(rules.iter(), device, identity).cloned()
        };
        let rule = match user {
            Some(rule) => Some((RuleGroup::User, rule.clone())),
            None => system().map(|rule| (RuleGroup::System, rule)),
        };
        let satp = rule.as_ref().map_or(Satp::DefaultAa, |(_, rule)| rule.satp);
        let psp = rule.as_ref().and_then(|(_, rule)| rule.psp);
        let options = rule.as_ref().map_or("", |(_, rule)| &rule.psp_options);
        Claim {
            satp,
            psp: psp.unwrap_or_else(|| self.default_psp(satp)),
            // Options were checked when the rule was made. A stored rule that was tampered with
            // gets the defaults.
            round_robin: RoundRobin::default()
                .with_options(options)
                .unwrap_or_default(),
            fence_settle_us: fence_settle::of_vendor(&identity.vendor),
            rule,
        }
    }

    /// Returns the path selection of devices whose rule names none.
    pub fn default_psp(&self, satp: Satp) -> Psp {
        let set = self.default_psps.get(&satp).copied();
        set.unwrap_or_else(|| satp.default_psp())
    }

    /// Sets the path selection of an array type: `satp set -s SATP -P PSP`.
    pub fn set_default_psp(&mut self, satp: Satp, psp: Psp) {
        if psp == satp.default_psp() {
            self.default_psps.remove(&satp);
        } else {
            self.default_psps.insert(satp, psp);
        }
    }

    /// Adds a user's rule. No other rule may have its criteria, because chance would decide between
    /// the two.
    pub fn add(&mut self, rule: ClaimRule) -> Result<(), RuleError> {
        let same = self.user.iter().find(|other| other.has_criteria_of(&rule));
        if let Some(same) = same {
            return Err(RuleError::new(
                RuleErrorKind::Exists,
                format!(
                    "duplicate user rule found for SATP {} matching {}",
                    same.satp.name(),
                    same.criteria()
                ),
                "remove that rule first, or use other criteria",
            ));
        }
        self.user.push(rule);
        Ok(())
    }

    /// Removes the user's rule that has this array type and these criteria. All other fields are
    /// ignored.
    pub fn remove(&mut self, rule: &ClaimRule) -> Result<ClaimRule, RuleError> {
        let same = |other: &ClaimRule| other.satp == rule.satp && other.has_criteria_of(rule);
        if let Some(at) = self.user.iter().position(same) {
            return Ok(self.user.remove(at));
        }
        let words = format!("for SATP {} matching {}", rule.satp.name(), rule.criteria());
        if SYSTEM_RULES.iter().any(|system| same(&system.rule())) {
            return Err(RuleError::new(
                RuleErrorKind::System,
                format!("the rule {words} is a system rule"),
                "system rules cannot be removed; add a user rule, which takes precedence",
            ));
        }
        Err(RuleError::new(
            RuleErrorKind::NotFound,
            format!("no user rule found {words}"),
            "list the rules, and give the same -s, -V, -M, -d, -D, -R and -c",
        ))
    }

    /// Lists all rules as `satp rule list` shows them, system rules first.
    pub fn lines(&self) -> Vec<RuleView> {
        let system = SYSTEM_RULES
            .iter()
            .map(|rule| view(&rule.rule(), rule.options, RuleGroup::System));
        let user = self.user.iter().map(|rule| view(rule, "", RuleGroup::User));
        system.chain(user).collect()
    }

    /// Lists the array types as `satp list` shows them: name, default PSP, description.
    pub fn satp_lines(&self) -> Vec<[&'static str; 3]> {
        Satp::ALL
            .into_iter()
            .map(|satp| {
                let psp = self.default_psp(satp).name();
                [satp.name(), psp, satp.description()]
            })
            .collect()
    }
}

/// Returns the first of the most specific rules that claim a device.
fn most_specific<'a>(
    rules: impl Iterator<Item = &'a ClaimRule>,
    device: &str,
    identity: &PathIdentity,
) -> Option<&'a ClaimRule> {
    rules
        .filter(|rule| rule.matches(device, identity))
        .reduce(|best, rule| {
            if rule.specificity() > best.specificity() {
                rule
            } else {
                best
            }
        })
}

fn view(rule: &ClaimRule, options: &str, group: RuleGroup) -> RuleView {
    RuleView {
        satp: rule.satp.name().to_owned(),
        device: rule.device.clone(),
        vendor: rule.vendor.clone(),
        model: rule.model.clone(),
        driver: rule.driver.clone(),
        transport: rule.transport.clone(),
        options: options.to_owned(),
        group: group.name().to_owned(),
        claim_options: rule.claim_option.map_or("", ClaimOption::name).to_owned(),
        default_psp: rule.psp.map_or("", Psp::name).to_owned(),
        psp_options: rule.psp_options.clone(),
        description: rule.description.clone(),
    }
}
