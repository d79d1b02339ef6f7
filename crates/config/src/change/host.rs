//! Edits of hosts and their secrets.

use super::*;

/// Parameters of `host create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateHost {
    /// Name of the host.
    pub name: String,
    /// Initiator names; `*` and `?` are wildcards.
    #[serde(default)]
    pub initiators: Vec<String>,
    /// Initiator names that do not belong to the host although a pattern matches; `*` and `?` are
    /// wildcards.
    #[serde(default)]
    pub except: Vec<String>,
    /// Secret that initiators must prove to log in.
    #[serde(default)]
    pub chap: Option<SetChap>,
}

/// A CHAP user and secret on their way in. `Debug` never prints the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetChap {
    /// User name (CHAP_N).
    pub user: String,
    /// Shared secret, 12 to 255 bytes.
    #[schema(write_only)]
    pub secret: String,
}

impl SetChap {
    pub(super) fn secret(&self) -> ChapSecret {
        ChapSecret {
            user: self.user.clone(),
            secret: self.secret.clone(),
        }
    }
}

impl std::fmt::Debug for SetChap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.secret().fmt(f)
    }
}

/// Changes of the rules for discovery. Values that are left out stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetDiscovery {
    /// Whether initiators must authenticate for discovery as they must at a target.
    #[serde(default)]
    pub auth: Option<bool>,
    /// Secret that each initiator must prove, in place of the hosts' secrets.
    #[serde(default)]
    pub chap: Option<SetChap>,
    /// Whether this proof is no longer required.
    #[serde(default)]
    pub no_chap: bool,
    /// Secret that the target proves to initiators that ask for mutual authentication.
    #[serde(default)]
    pub mutual_chap: Option<SetChap>,
    /// Whether this secret is forgotten.
    #[serde(default)]
    pub no_mutual_chap: bool,
}

impl Edit {
    pub(super) fn set_discovery(&mut self, request: &SetDiscovery) {
        if let Some(auth) = request.auth {
            self.config.discovery_auth = auth;
        }
        if request.chap.is_some() || request.no_chap {
            self.config.discovery_chap = request.chap.as_ref().map(SetChap::secret);
        }
        if request.mutual_chap.is_some() || request.no_mutual_chap {
            let secret = request.mutual_chap.as_ref().map(SetChap::secret);
            self.config.discovery_mutual_chap = secret;
        }
    }

    pub(super) fn create_host(&mut self, request: &CreateHost) -> Result<(), Error> {
        let chap = request.chap.as_ref().map(SetChap::secret);
        self.config.hosts.push(HostSpec {
            name: request.name.clone(),
            initiators: request.initiators.clone(),
            except: request.except.clone(),
            chap,
        });
        Ok(())
    }

    pub(super) fn add_initiator(&mut self, host: &str, initiator: &str) -> Result<(), Error> {
        let host = self.host_mut(host)?;
        if let Some(known) = host.has_pattern(initiator) {
            return Err(Error::exists(
                format!("host {} already has initiator {known}", host.name),
                format!(
                    "sandstone map explain {} shows what this initiator sees",
                    name::shown(known)
                ),
            ));
        }
        host.initiators.push(initiator.to_owned());
        Ok(())
    }

    pub(super) fn remove_initiator(&mut self, host: &str, initiator: &str) -> Result<(), Error> {
        let host = self.host_mut(host)?;
        if host.has_pattern(initiator).is_none() {
            return Err(Error::not_found(
                format!("host {} has no initiator {initiator}", host.name),
                format!("sandstone host list {} shows its initiators", host.name),
            ));
        }
        host.initiators
            .retain(|other| !name::is_same(other, initiator));
        Ok(())
    }

    pub(super) fn set_host_chap(
        &mut self,
        host: &str,
        chap: Option<&SetChap>,
    ) -> Result<(), Error> {
        self.host_mut(host)?.chap = chap.map(SetChap::secret);
        Ok(())
    }

    pub(super) fn delete_host(&mut self, name: &str) -> Result<(), Error> {
        self.host_mut(name)?;
        let ours = |map: &MapSpec| map.host.as_deref() == Some(name);
        let dependents = self.told_maps(ours);
        self.refuse_if_used(
            &format!("host {name}"),
            &dependents,
            &format!("sandstone host delete {name}"),
        )?;
        self.config.maps.retain(|map| !ours(map));
        self.config.hosts.retain(|host| host.name != name);
        Ok(())
    }

    fn host_mut(&mut self, name: &str) -> Result<&mut HostSpec, Error> {
        self.config
            .hosts
            .iter_mut()
            .find(|host| host.name == name)
            .ok_or_else(|| {
                Error::not_found(
                    format!("host {name} does not exist"),
                    "sandstone host list shows the hosts",
                )
            })
    }
}
