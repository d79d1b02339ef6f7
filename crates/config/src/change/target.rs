//! Edits of targets and their portals.

use super::*;

/// Parameters of `target create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTarget {
    /// iSCSI name of the target.
    pub iqn: String,
    /// Alias of the target (TargetAlias).
    #[serde(default)]
    pub alias: String,
    /// Listening addresses of portal group 1; 0.0.0.0:3260 if empty.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub portals: Vec<SocketAddr>,
    /// ALUA changes that are offered.
    #[serde(default)]
    pub alua: AluaMode,
    /// Limits of sessions.
    #[serde(default)]
    pub parameters: TargetParameters,
}

/// Parameters of `target modify`. A `None` leaves the value unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModifyTarget {
    /// Alias of the target (TargetAlias).
    #[serde(default)]
    pub alias: Option<String>,
    /// ALUA changes that are offered.
    #[serde(default)]
    pub alua: Option<AluaMode>,
    /// Limits of sessions; replaces all of them.
    #[serde(default)]
    pub parameters: Option<TargetParameters>,
    /// Take it offline or online.
    #[serde(default)]
    pub offline: Option<bool>,
    /// Redirection of initiators to another address.
    #[serde(default)]
    pub redirect: Option<RedirectSpec>,
    /// Whether to end the redirection.
    #[serde(default)]
    pub no_redirect: bool,
    /// CHAP name and secret that the target proves in mutual CHAP.
    #[serde(default)]
    pub mutual_chap: Option<SetChap>,
    /// Whether the target proves nothing any more.
    #[serde(default)]
    pub no_mutual_chap: bool,
}

/// Parameters of `target portal add`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddPortal {
    /// Listening address.
    #[schema(value_type = String)]
    pub portal: SocketAddr,
    /// Portal group tag; a new group is made if none has it.
    #[serde(default = "first_tag")]
    pub tag: u16,
    /// Target port group (ALUA) of a new portal group.
    #[serde(default)]
    pub target_port_group: Option<u16>,
    /// ALUA state of a new portal group.
    #[serde(default)]
    pub alua_state: Option<AluaState>,
}

/// Parameters of `target alua-state`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetAluaState {
    /// State of all target ports of a target port group.
    pub state: AluaState,
}

fn first_tag() -> u16 {
    1
}

/// Returns the iSCSI port on every address.
pub(super) fn default_portal() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], 3260))
}

impl Edit {
    pub(super) fn create_target(&mut self, request: &CreateTarget) -> Result<(), Error> {
        let portals = if request.portals.is_empty() {
            vec![default_portal()]
        } else {
            request.portals.clone()
        };
        let target_port_group = self.target_port_group_with_room();
        let group = PortalGroupSpec {
            tag: 1,
            relative_port_id: identity::new_relative_port_id(&mut self.config.identity)?,
            target_port_group,
            portals,
            alua_state: self.state_of(1).unwrap_or_default(),
        };
        self.config.targets.push(TargetSpec {
            iqn: own_iqn(&request.iqn)?,
            alias: request.alias.clone(),
            portal_groups: vec![group],
            alua: request.alua,
            redirect: None,
            mutual_chap: None,
            parameters: request.parameters.clone(),
            offline: false,
        });
        Ok(())
    }

    pub(super) fn modify_target(&mut self, iqn: &str, request: &ModifyTarget) -> Result<(), Error> {
        let target = self.target_mut(iqn)?;
        if let Some(alias) = &request.alias {
            target.alias.clone_from(alias);
        }
        target.alua = request.alua.unwrap_or(target.alua);
        target.offline = request.offline.unwrap_or(target.offline);
        if let Some(parameters) = &request.parameters {
            target.parameters.clone_from(parameters);
        }
        if request.redirect.is_some() || request.no_redirect {
            target.redirect.clone_from(&request.redirect);
        }
        if request.mutual_chap.is_some() || request.no_mutual_chap {
            target.mutual_chap = request.mutual_chap.as_ref().map(SetChap::secret);
        }
        Ok(())
    }

    pub(super) fn delete_target(&mut self, iqn: &str) -> Result<(), Error> {
        let iqn = self.target_mut(iqn)?.iqn.clone();
        let mut dependents = self.maps_that_name(&iqn);
        let groups = self.config.target_groups.iter();
        let holding = groups.filter(|group| group.targets.contains(&iqn));
        dependents.extend(holding.map(|group| format!("target group {}", group.name)));
        self.refuse_if_used(
            &format!("target {iqn}"),
            &dependents,
            &format!("sandstone target delete {}", name::shown(&iqn)),
        )?;
        let maps = &mut self.config.maps;
        maps.retain(|map| map.target.as_ref() != Some(&iqn));
        for group in &mut self.config.target_groups {
            group.targets.retain(|member| *member != iqn);
        }
        self.config.targets.retain(|target| target.iqn != iqn);
        Ok(())
    }

    pub(super) fn add_portal(&mut self, iqn: &str, request: &AddPortal) -> Result<(), Error> {
        let existing = self
            .target_mut(iqn)?
            .portal_groups
            .iter_mut()
            .find(|group| group.tag == request.tag);
        if let Some(group) = existing {
            if request
                .target_port_group
                .is_some_and(|tpg| tpg != group.target_port_group)
                || request
                    .alua_state
                    .is_some_and(|state| state != group.alua_state)
            {
                return Err(Error::invalid(
                    format!(
                        "portal group {} of {iqn} exists already, with another target port group or ALUA \
                         state",
                        request.tag
                    ),
                    "add the address without these options, or choose a new --tag",
                ));
            }
            group.portals.push(request.portal);
            return Ok(());
        }
        let asked = request.target_port_group;
        let target_port_group = asked.unwrap_or_else(|| self.target_port_group_with_room());
        let known = self.state_of(target_port_group);
        let group = PortalGroupSpec {
            tag: request.tag,
            relative_port_id: identity::new_relative_port_id(&mut self.config.identity)?,
            target_port_group,
            portals: vec![request.portal],
            alua_state: request.alua_state.or(known).unwrap_or_default(),
        };
        self.target_mut(iqn)?.portal_groups.push(group);
        Ok(())
    }

    pub(super) fn remove_portal(&mut self, iqn: &str, portal: SocketAddr) -> Result<(), Error> {
        let target = self.target_mut(iqn)?;
        let count: usize = target
            .portal_groups
            .iter()
            .map(|group| group.portals.len())
            .sum();
        let Some(group) = target
            .portal_groups
            .iter_mut()
            .find(|group| group.portals.contains(&portal))
        else {
            return Err(Error::not_found(
                format!("target {} has no portal {portal}", target.iqn),
                format!(
                    "sandstone target list -o iqn,portals {}",
                    name::shown(&target.iqn)
                ),
            ));
        };
        if count == 1 {
            return Err(Error::invalid(
                format!(
                    "{portal} is the only portal of {iqn}; without it no host could reach the target"
                ),
                format!(
                    "add another portal first, or take the target offline: sandstone target offline {}",
                    name::shown(iqn)
                ),
            ));
        }
        group.portals.retain(|&other| other != portal);
        target
            .portal_groups
            .retain(|group| !group.portals.is_empty());
        Ok(())
    }

    pub(super) fn set_alua_state(&mut self, group: u16, state: AluaState) -> Result<(), Error> {
        let targets = self.config.targets.iter_mut();
        let groups = targets.flat_map(|target| &mut target.portal_groups);
        let ports: Vec<&mut PortalGroupSpec> = groups
            .filter(|port| port.target_port_group == group)
            .collect();
        if ports.is_empty() {
            return Err(Error::not_found(
                format!("target port group {group} has no portal groups"),
                "sandstone target list -o iqn,ports",
            ));
        }
        ports.into_iter().for_each(|port| port.alua_state = state);
        Ok(())
    }

    /// Returns the target port group of a new target port if the user chose none: the first, or
    /// when it is full, the next one of its state.
    fn target_port_group_with_room(&self) -> u16 {
        let ports = |group: u16| {
            let of_targets = self.config.targets.iter();
            let groups = of_targets.flat_map(|target| &target.portal_groups);
            groups.filter(|of| of.target_port_group == group).count()
        };
        let state = self.state_of(1);
        let mut fitting = (1..=u16::MAX).filter(|group| {
            let is_alike = self.state_of(*group).is_none_or(|of| Some(of) == state);
            is_alike && ports(*group) < MAX_TARGET_PORTS
        });
        // So many ports do not exist.
        fitting.next().unwrap_or(1)
    }

    fn state_of(&self, target_port_group: u16) -> Option<AluaState> {
        let groups = self
            .config
            .targets
            .iter()
            .flat_map(|target| &target.portal_groups);
        groups
            .into_iter()
            .find(|group| group.target_port_group == target_port_group)
            .map(|group| group.alua_state)
    }

    fn target_mut(&mut self, iqn: &str) -> Result<&mut TargetSpec, Error> {
        self.config
            .targets
            .iter_mut()
            .find(|target| name::is_same(&target.iqn, iqn))
            .ok_or_else(|| {
                Error::not_found(
                    format!("target {iqn} does not exist"),
                    "sandstone target list shows the targets",
                )
            })
    }
}
