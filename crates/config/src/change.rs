//! Every edit that an administrator can make, as data. Each verb of the command line and of the API
//! is one [`Change`]. A change is applied to a copy and validated before anything else happens.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::identity::{self, Seed};
use super::redact::keep_secrets;
use super::validate::{self, MAX_LUN};
use model::config::{
    AluaMode, AluaState, BackendSpec, ChapSecret, Config, HostSpec, IdentitySpec, MAX_TARGET_PORTS,
    MapSpec, PortalGroupSpec, RedirectSpec, TargetGroupSpec, TargetParameters, TargetSpec,
    UnitSpec, default_block_size, default_physical_block_size,
};
use model::error::{Error, ErrorKind};
use model::name;
use model::way::WaySpec;
use multipath::RuleText;

mod host;
mod initiator;
mod lu;
mod map;
mod target;
mod target_group;
mod way;

pub use host::{CreateHost, SetChap, SetDiscovery};
pub use initiator::{LogIn, ModifyLogin, SetDefaultPsp, SetDevice, SetInitiator};
pub use lu::{CreateUnit, ModifyUnit, NewVolume};
pub use map::{AddMap, RemoveMap, Share};
pub use target::{AddPortal, CreateTarget, ModifyTarget, SetAluaState};
pub use target_group::CreateTargetGroup;
pub use way::ModifyWay;

/// Edit of the configuration.
#[derive(Clone, Debug)]
pub enum Change {
    /// Verb `lu create`.
    CreateUnit(CreateUnit),
    /// Verbs `lu modify`, `lu online`, `lu offline`.
    ModifyUnit(String, ModifyUnit),
    /// Verb `lu delete`. The data behind the unit stays.
    DeleteUnit(String),
    /// Verb `target create`.
    CreateTarget(CreateTarget),
    /// Verbs `target modify`, `target online`, `target offline`, `target auth`, `target redirect`.
    ModifyTarget(String, ModifyTarget),
    /// Verb `target delete`.
    DeleteTarget(String),
    /// Verb `target portal add`.
    AddPortal(String, AddPortal),
    /// Verb `target portal remove`.
    RemovePortal(String, SocketAddr),
    /// Verb `target alua-state`.
    SetAluaState(u16, SetAluaState),
    /// Verb `target-group create`.
    CreateTargetGroup(CreateTargetGroup),
    /// Verb `target-group add-target`.
    AddTarget(String, String),
    /// Verb `target-group remove-target`.
    RemoveTarget(String, String),
    /// Verb `target-group delete`.
    DeleteTargetGroup(String),
    /// Verb `host create`.
    CreateHost(CreateHost),
    /// Verb `host add-initiator`.
    AddInitiator(String, String),
    /// Verb `host remove-initiator`.
    RemoveInitiator(String, String),
    /// Verb `host auth`; `None` asks for no secret.
    SetHostChap(String, Option<SetChap>),
    /// Verb `host delete`.
    DeleteHost(String),
    /// Verb `map add`.
    AddMap(AddMap),
    /// Verb `map remove`.
    RemoveMap(RemoveMap),
    /// Verb `share`, with the portals of a new target for which the verb names none.
    Share(Share, Vec<SocketAddr>),
    /// Verb `initiator adapter set`.
    SetInitiator(SetInitiator),
    /// Verb `initiator login`.
    LogIn(LogIn),
    /// Verb `initiator modify`.
    ModifyLogin(String, ModifyLogin),
    /// Verb `initiator logout`.
    LogOut(String),
    /// Verbs `initiator device set`, `initiator psp set`.
    SetDevice(String, SetDevice),
    /// Verb `initiator device reset`: claim rules and defaults decide again.
    ResetDevice(String),
    /// Verb `initiator claimrule add`.
    AddClaimRule(RuleText),
    /// Verb `initiator claimrule remove`.
    RemoveClaimRule(RuleText),
    /// Verb `initiator satp set`.
    SetDefaultPsp(SetDefaultPsp),
    /// Verbs `config discovery-auth`, `config discovery-user`, `config discovery-secret`.
    SetDiscovery(SetDiscovery),
    /// Verb `alert way add`.
    AddWay(WaySpec),
    /// Verb `alert way modify`.
    ModifyWay(String, ModifyWay),
    /// Verb `alert way remove`.
    RemoveWay(String),
    /// Verb `config apply`, with the new configuration.
    Replace(Box<Config>),
}

impl Change {
    /// Returns the configuration after this change, and leaves `config` unchanged. With `cascade`,
    /// objects that depend on a deleted object are deleted too. Without `cascade`, the deletion is
    /// refused.
    pub fn applied(&self, config: &Config, seed: Seed, cascade: bool) -> Result<Config, Error> {
        let mut edit = Edit {
            config: config.clone(),
            seed,
            cascade,
        };
        match self {
            Self::CreateUnit(request) => edit.create_unit(request),
            Self::ModifyUnit(name, request) => edit.modify_unit(name, request),
            Self::DeleteUnit(name) => edit.delete_unit(name),
            Self::CreateTarget(request) => edit.create_target(request),
            Self::ModifyTarget(iqn, request) => edit.modify_target(iqn, request),
            Self::DeleteTarget(iqn) => edit.delete_target(iqn),
            Self::AddPortal(iqn, request) => edit.add_portal(iqn, request),
            Self::RemovePortal(iqn, portal) => edit.remove_portal(iqn, *portal),
            Self::SetAluaState(group, request) => edit.set_alua_state(*group, request.state),
            Self::CreateTargetGroup(request) => edit.create_target_group(request),
            Self::AddTarget(group, iqn) => edit.add_target(group, iqn),
            Self::RemoveTarget(group, iqn) => edit.remove_target(group, iqn),
            Self::DeleteTargetGroup(name) => edit.delete_target_group(name),
            Self::CreateHost(request) => edit.create_host(request),
            Self::AddInitiator(host, initiator) => edit.add_initiator(host, initiator),
            Self::RemoveInitiator(host, initiator) => edit.remove_initiator(host, initiator),
            Self::SetHostChap(host, secret) => edit.set_host_chap(host, secret.as_ref()),
            Self::DeleteHost(name) => edit.delete_host(name),
            Self::AddMap(request) => edit.add_map(request),
            Self::RemoveMap(request) => edit.remove_map(request),
            Self::Share(request, portals) => edit.share(request, portals),
            Self::SetInitiator(request) => edit.set_initiator(request),
            Self::LogIn(request) => edit.log_in(request),
            Self::ModifyLogin(iqn, request) => edit.modify_login(iqn, request),
            Self::LogOut(iqn) => edit.log_out(iqn),
            Self::SetDevice(name, request) => edit.set_device(name, request),
            Self::ResetDevice(name) => edit.reset_device(name),
            Self::AddClaimRule(rule) => edit.add_claim_rule(rule),
            Self::RemoveClaimRule(rule) => edit.remove_claim_rule(rule),
            Self::SetDefaultPsp(request) => edit.set_default_psp(request),
            Self::SetDiscovery(request) => {
                edit.set_discovery(request);
                Ok(())
            }
            Self::AddWay(way) => edit.add_way(way),
            Self::ModifyWay(name, request) => edit.modify_way(name, request),
            Self::RemoveWay(name) => edit.remove_way(name),
            Self::Replace(wanted) => edit.replace(wanted),
        }?;
        let Edit {
            config: mut after, ..
        } = edit;
        validate::validate(&after)?;
        if after != *config {
            after.generation = config.generation + 1;
        }
        Ok(after)
    }
}

/// Copy of the configuration that is being edited.
struct Edit {
    config: Config,
    seed: Seed,
    cascade: bool,
}

impl Edit {
    /// Puts `wanted` in force. Identities and secrets that it omits are taken from the object
    /// of that name, or are new.
    fn replace(&mut self, wanted: &Config) -> Result<(), Error> {
        let before = &self.config;
        let mut after = wanted.clone();
        after.generation = before.generation;
        keep_secrets(before, &mut after);
        identity::carry_over(&before.identity, &mut after);
        for unit in &mut after.units {
            complete_unit(
                unit,
                before.unit(&unit.name),
                &mut after.identity,
                &mut self.seed,
            )?;
        }
        for target in &mut after.targets {
            let old = before.target(&target.iqn);
            // The spelling that the target's sessions and maps know stays.
            if let Some(old) = old {
                target.iqn.clone_from(&old.iqn);
            }
            for group in &mut target.portal_groups {
                let same =
                    old.and_then(|old| old.portal_groups.iter().find(|g| g.tag == group.tag));
                if group.relative_port_id == 0 {
                    group.relative_port_id = match same {
                        Some(same) => same.relative_port_id,
                        None => identity::new_relative_port_id(&mut after.identity)?,
                    };
                }
                if let Some(same) = same {
                    keep_target_port_group(&target.iqn, same, group)?;
                }
            }
        }
        let spelled = |targets: &[TargetSpec], given: &mut String| {
            if let Some(target) = targets.iter().find(|it| name::is_same(&it.iqn, given)) {
                given.clone_from(&target.iqn);
            }
        };
        for target in after
            .target_groups
            .iter_mut()
            .flat_map(|it| &mut it.targets)
        {
            spelled(&after.targets, target);
        }
        for target in after.maps.iter_mut().filter_map(|map| map.target.as_mut()) {
            spelled(&after.targets, target);
        }
        keep_data(before, &after)?;
        self.config = after;
        Ok(())
    }

    /// Refuses the edit because `dependents` exist, unless they are to be deleted too.
    fn refuse_if_used(
        &self,
        what: &str,
        dependents: &[String],
        command: &str,
    ) -> Result<(), Error> {
        if dependents.is_empty() || self.cascade {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::InUse,
            format!("{what} is in use: {}", dependents.join("; ")),
            format!("{command} --yes removes the listed objects too; or remove them one by one"),
        ))
    }
}

/// Refuses a change that would cut off or garble the data of a unit that stays. Initiators know the
/// disk by its designator, and rely on its size and block length.
fn keep_data(before: &Config, after: &Config) -> Result<(), Error> {
    for unit in &after.units {
        let Some(old) = before.units.iter().find(|old| old.naa == unit.naa) else {
            continue;
        };
        if old.block_size != unit.block_size {
            return Err(Error::invalid(
                format!(
                    "logical unit {} has blocks of {} bytes; with blocks of {} bytes, hosts would misread \
                     its partition tables",
                    unit.name, old.block_size, unit.block_size
                ),
                "create another logical unit, and copy the data from a host",
            ));
        }
        if let (Some(was), Some(wanted)) = (old.backend.size(), unit.backend.size())
            && wanted < was
        {
            return Err(lu::shrinking(&unit.name, was, wanted));
        }
    }
    Ok(())
}

/// Refuses to move a target port to another target port group. Logged-in initiators know the port
/// by its group (VPD page 83h), and follow the states of the group.
fn keep_target_port_group(
    iqn: &str,
    before: &PortalGroupSpec,
    after: &PortalGroupSpec,
) -> Result<(), Error> {
    let is_same_port = before.relative_port_id == after.relative_port_id;
    if !is_same_port || before.target_port_group == after.target_port_group {
        return Ok(());
    }
    Err(Error::invalid(
        format!(
            "portal group {} of {iqn} is in target port group {}; its sessions would not learn of a move to \
             {}",
            before.tag, before.target_port_group, after.target_port_group
        ),
        "give the portal group another tag, and omit relative_port_id: this makes a new target port",
    ))
}

fn complete_unit(
    unit: &mut UnitSpec,
    old: Option<&UnitSpec>,
    identity: &mut IdentitySpec,
    seed: &mut Seed,
) -> Result<(), Error> {
    match (unit.naa.is_empty(), old) {
        (true, Some(old)) => unit.naa.clone_from(&old.naa),
        (true, None) => {
            let (naa, serial) = identity::new_unit(identity, seed)?;
            unit.naa = naa;
            if unit.serial.is_empty() {
                unit.serial = serial;
            }
        }
        (false, _) => unit.naa = unit.naa.trim_start_matches("naa.").to_ascii_lowercase(),
    }
    if unit.serial.is_empty() {
        unit.serial = match old.filter(|old| old.naa == unit.naa) {
            Some(old) => old.serial.clone(),
            None => identity::serial_of(&unit.naa),
        };
    }
    Ok(())
}

/// Checks and returns the name of a new target.
fn own_iqn(iqn: &str) -> Result<String, Error> {
    name::own(iqn).map_err(|error| {
        Error::invalid(
            format!("{iqn:?} is not a valid target name: {error}"),
            format!("use a name such as {}:disk1", identity::TARGET_PREFIX),
        )
    })
}

/// Returns the name of an existing target in its own spelling, or the name of a possible target.
fn target_named(config: &Config, given: &str) -> Result<String, Error> {
    config
        .target(given)
        .map_or_else(|| own_iqn(given), |target| Ok(target.iqn.clone()))
}

/// Resolves the `target` of a map: a target in its own spelling, or else the name of a target
/// group.
fn scope_named(config: &Config, given: &str) -> String {
    target_named(config, given).unwrap_or_else(|_| given.to_owned())
}

#[cfg(test)]
mod tests;
