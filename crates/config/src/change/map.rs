//! Edits of the map, and `share`, which makes everything that a host needs to see a unit.

use super::*;

/// Parameters of `map add`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddMap {
    /// Name of the logical unit.
    pub unit: String,
    /// Name of the host; `None` for every host.
    #[serde(default)]
    pub host: Option<String>,
    /// IQN of the target, or the name of a target group; `None` for every target.
    #[serde(default)]
    pub target: Option<String>,
    /// LUN; `None` for the lowest that is free everywhere the map leads.
    #[serde(default)]
    pub lun: Option<u16>,
    /// Whether writes through this map are refused.
    #[serde(default)]
    pub read_only: bool,
}

/// Parameters of `map remove`. Every given field must fit. Exactly one map may fit, unless `all` is
/// set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveMap {
    /// Name of the logical unit.
    pub unit: String,
    /// Name of the host.
    #[serde(default)]
    pub host: Option<String>,
    /// IQN of the target, or the name of a target group, as the map names it.
    #[serde(default)]
    pub target: Option<String>,
    /// LUN of the map.
    #[serde(default)]
    pub lun: Option<u16>,
    /// Whether to remove every map that fits.
    #[serde(default)]
    pub all: bool,
}

/// Parameters of `share`: a logical unit (made unless it exists), a target (made unless one fits),
/// a host and a map, in one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Name of the logical unit.
    pub unit: String,
    /// Initiator name of the host, or the name of an existing host.
    pub host: String,
    /// Parameters for making the unit if it does not exist.
    #[serde(default)]
    pub create: Option<CreateUnit>,
    /// IQN of the target. `None` for the only target, or for a new one named after the unit.
    #[serde(default)]
    pub target: Option<String>,
    /// Listening addresses of a new target.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub portals: Vec<SocketAddr>,
    /// LUN; `None` for the lowest free one.
    #[serde(default)]
    pub lun: Option<u16>,
    /// Whether writes through this map are refused.
    #[serde(default)]
    pub read_only: bool,
}

impl Share {
    /// Returns the listening addresses of a new target, or `default` if none are named. If there is
    /// exactly one target, it is used as it is.
    fn portals_of_new_target(&self, default: &[SocketAddr], config: &Config) -> Vec<SocketAddr> {
        let may_make_one = self.target.is_some() || config.targets.len() != 1;
        match self.portals.is_empty() && may_make_one {
            true => default.to_vec(),
            false => self.portals.clone(),
        }
    }
}

impl Edit {
    pub(super) fn add_map(&mut self, request: &AddMap) -> Result<(), Error> {
        let mut map = MapSpec {
            unit: request.unit.clone(),
            host: request.host.clone(),
            target: request
                .target
                .as_deref()
                .map(|given| scope_named(&self.config, given)),
            lun: request.lun.unwrap_or(0),
            read_only: request.read_only,
        };
        if request.lun.is_none() {
            map.lun = self.free_lun(&map)?;
        }
        self.config.maps.push(map);
        Ok(())
    }

    pub(super) fn remove_map(&mut self, request: &RemoveMap) -> Result<(), Error> {
        let target = request.target.as_deref();
        let target = target.map(|given| scope_named(&self.config, given));
        let fits = |map: &MapSpec| {
            map.unit == request.unit
                && (request.host.is_none() || map.host == request.host)
                && (target.is_none() || map.target == target)
                && request.lun.is_none_or(|lun| map.lun == lun)
        };
        let found: Vec<_> = self.config.maps.iter().filter(|map| fits(map)).collect();
        let list = || {
            found
                .iter()
                .map(|m| format!("LUN {} ({})", m.lun, validate::describe(&self.config, m)))
                .collect::<Vec<_>>()
                .join("; ")
        };
        match found.len() {
            0 => {
                return Err(Error::not_found(
                    format!("no map of logical unit {} matches", request.unit),
                    "sandstone map list shows the maps",
                ));
            }
            1 => {}
            n if !request.all => {
                return Err(Error::invalid(
                    format!(
                        "{n} maps of logical unit {} match: {}",
                        request.unit,
                        list()
                    ),
                    "choose one with --host, --target or --lun, or give --all",
                ));
            }
            _ => {}
        }
        self.config.maps.retain(|map| !fits(map));
        Ok(())
    }

    pub(super) fn share(&mut self, request: &Share, default: &[SocketAddr]) -> Result<(), Error> {
        if self.config.unit(&request.unit).is_none() {
            match &request.create {
                Some(create) => self.create_unit(create)?,
                None => {
                    return Err(Error::not_found(
                        format!(
                            "logical unit {} does not exist, and the command gives no size to create it",
                            request.unit
                        ),
                        format!(
                            "sandstone share {} --host {} --size 10G",
                            request.unit, request.host
                        ),
                    ));
                }
            }
        }
        let host = self.share_host(&request.host)?;
        let portals = request.portals_of_new_target(default, &self.config);
        let target = self.share_target(request, portals)?;
        let exists = self.config.maps.iter().any(|map| {
            map.unit == request.unit
                && map.host.as_ref().is_none_or(|name| *name == host)
                && map.leads_to(&self.config, &target)
        });
        if exists {
            return Ok(());
        }
        self.add_map(&AddMap {
            unit: request.unit.clone(),
            host: Some(host),
            target: Some(target),
            lun: request.lun,
            read_only: request.read_only,
        })
    }

    /// Returns the host of this name or initiator; makes it if there is none.
    fn share_host(&mut self, given: &str) -> Result<String, Error> {
        if self.config.host(given).is_some() {
            return Ok(given.to_owned());
        }
        let mut hosts = self.config.hosts.iter();
        if let Some(host) = hosts.find(|host| host.has_pattern(given).is_some()) {
            return Ok(host.name.clone());
        }
        // A mistyped host is no initiator of that name.
        if !name::begins_as_name(given) && !given.contains(['*', '?']) {
            return Err(Error::invalid(
                format!("{given:?} is neither an existing host nor an initiator name"),
                format!(
                    "sandstone host list shows the hosts; if an initiator has this name: sandstone host \
                     create HOST --initiator {}",
                    name::shown(given)
                ),
            ));
        }
        let name = self.free_host_name(given);
        self.create_host(&CreateHost {
            except: Vec::new(),
            name: name.clone(),
            initiators: vec![given.to_owned()],
            chap: None,
        })?;
        Ok(name)
    }

    /// Makes a host name from the part of the initiator's name that tells it from others.
    fn free_host_name(&self, initiator: &str) -> String {
        let own = initiator
            .rsplit(':')
            .find(|part| !part.is_empty())
            .unwrap_or(initiator);
        let plain: String = own
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
            .take(60)
            .collect();
        let plain = plain.trim_start_matches(['-', '.']);
        let base = if plain.is_empty() { "host" } else { plain };
        let mut name = base.to_owned();
        let mut number = 2;
        while self.config.host(&name).is_some() {
            name = format!("{base}-{number}");
            number += 1;
        }
        name
    }

    fn share_target(&mut self, request: &Share, portals: Vec<SocketAddr>) -> Result<String, Error> {
        let iqn = match (&request.target, self.config.targets.as_slice()) {
            (Some(iqn), _) => target_named(&self.config, iqn)?,
            (None, [only]) if portals.is_empty() => return Ok(only.iqn.clone()),
            (None, _) => {
                let maps = self.config.maps.iter();
                let mut mapped = maps.filter(|map| map.unit == request.unit);
                let known = mapped.find_map(|map| map.targets(&self.config)?.first());
                if let Some(iqn) = known {
                    return Ok(iqn.clone());
                }
                let own: String = request.unit.to_ascii_lowercase().replace('_', "-");
                format!("{}:{own}", identity::TARGET_PREFIX)
            }
        };
        if self.config.target(&iqn).is_none() {
            self.create_target(&CreateTarget {
                iqn: iqn.clone(),
                alias: String::new(),
                portals,
                alua: AluaMode::default(),
                parameters: TargetParameters::default(),
            })?;
        }
        Ok(iqn)
    }

    /// Returns the lowest LUN that is free in all maps that could meet `map`.
    fn free_lun(&self, map: &MapSpec) -> Result<u16, Error> {
        let meeting = self
            .config
            .maps
            .iter()
            .filter(|other| validate::meet(&self.config, map, other));
        let used: std::collections::HashSet<u16> = meeting.map(|other| other.lun).collect();
        (0..=MAX_LUN)
            .find(|lun| !used.contains(lun))
            .ok_or_else(|| {
                Error::invalid(
                    "every LUN from 0 to 16383 is in use there",
                    "map the logical unit at another target with --target",
                )
            })
    }
}
