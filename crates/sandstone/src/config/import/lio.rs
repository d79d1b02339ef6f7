//! LIO's saveconfig.json, as targetcli writes it.
//!
//! LIO makes its NAA designator of its own company id and the first 25 hexadecimal digits of the
//! serial number, so both can be taken over exactly and ESXi keeps its datastores.

use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;

use super::{Imported, free_name};
use crate::config::Error;
use crate::config::model::{
    BackendSpec, ChapSecret, Config, HostSpec, MapSpec, PortalGroupSpec, TargetSpec, UnitSpec,
};
use crate::config::name;

/// What LIO's designators begin with: type 6 and its company id.
const LIO_NAA: &str = "6001405";

#[derive(Deserialize)]
struct SaveConfig {
    #[serde(default)]
    storage_objects: Vec<StorageObject>,
    #[serde(default)]
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct StorageObject {
    name: String,
    plugin: String,
    #[serde(default)]
    dev: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    wwn: String,
    #[serde(default)]
    write_back: bool,
    #[serde(default)]
    readonly: bool,
    #[serde(default)]
    attributes: StorageAttributes,
}

#[derive(Default, Deserialize)]
struct StorageAttributes {
    #[serde(default)]
    block_size: Option<u32>,
    #[serde(default)]
    emulate_write_cache: u8,
    #[serde(default)]
    emulate_tpu: u8,
}

#[derive(Deserialize)]
struct Target {
    fabric: String,
    wwn: String,
    #[serde(default)]
    tpgs: Vec<Tpg>,
}

#[derive(Deserialize)]
struct Tpg {
    tag: u16,
    #[serde(default = "yes")]
    enable: bool,
    #[serde(default)]
    attributes: TpgAttributes,
    #[serde(default)]
    luns: Vec<Lun>,
    #[serde(default)]
    node_acls: Vec<NodeAcl>,
    #[serde(default)]
    portals: Vec<Portal>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct TpgAttributes {
    #[serde(default)]
    authentication: i8,
    #[serde(default)]
    generate_node_acls: u8,
    #[serde(default = "write_protected")]
    demo_mode_write_protect: u8,
}

impl Default for TpgAttributes {
    fn default() -> Self {
        Self {
            authentication: 0,
            generate_node_acls: 0,
            demo_mode_write_protect: write_protected(),
        }
    }
}

/// LIO's default for what is shown to anyone.
fn write_protected() -> u8 {
    1
}

#[derive(Deserialize)]
struct Lun {
    index: u16,
    storage_object: String,
}

#[derive(Deserialize)]
struct NodeAcl {
    node_wwn: String,
    #[serde(default)]
    chap_userid: String,
    #[serde(default)]
    chap_password: String,
    #[serde(default)]
    chap_mutual_userid: String,
    #[serde(default)]
    chap_mutual_password: String,
    #[serde(default)]
    mapped_luns: Vec<MappedLun>,
}

#[derive(Deserialize)]
struct MappedLun {
    index: u16,
    tpg_lun: u16,
    #[serde(default)]
    write_protect: bool,
}

#[derive(Deserialize)]
struct Portal {
    ip_address: String,
    port: u16,
    #[serde(default)]
    iser: bool,
}

/// Reads a saveconfig.json.
pub fn read(text: &str) -> Result<Imported, Error> {
    let saved: SaveConfig = serde_json::from_str(text).map_err(|e| {
        Error::invalid(
            format!("this is no saveconfig.json of LIO: {e}"),
            "give the file that `targetcli saveconfig` writes, usually /etc/rtslib-fb-target/saveconfig.json",
        )
    })?;
    let mut import = Import {
        imported: Imported {
            config: Config::default(),
            notes: Vec::new(),
        },
    };
    for object in &saved.storage_objects {
        import.unit(object);
    }
    for target in &saved.targets {
        import.target(target);
    }
    Ok(import.imported)
}

struct Import {
    imported: Imported,
}

impl Import {
    fn note(&mut self, note: impl Into<String>) {
        self.imported.notes.push(note.into());
    }

    fn unit(&mut self, object: &StorageObject) {
        let backend = match object.plugin.as_str() {
            "block" => BackendSpec::Device {
                path: object.dev.clone().into(),
            },
            "fileio" if object.dev.starts_with("/dev/") => BackendSpec::Device {
                path: object.dev.clone().into(),
            },
            "fileio" => BackendSpec::File {
                path: object.dev.clone().into(),
                size: object.size,
                preallocate: false,
            },
            "ramdisk" => BackendSpec::Memory { size: object.size },
            other => {
                return self.note(format!(
                    "storage object {} was left out: there is no backend like {other}",
                    object.name
                ));
            }
        };
        let config = &self.imported.config;
        let name = free_name(&object.name, |name| config.unit(name).is_some());
        if name != object.name {
            self.note(format!(
                "storage object {} is now the logical unit {name}",
                object.name
            ));
        }
        let naa = naa(&object.wwn);
        if naa.is_none() {
            self.note(format!("{name} has no usable wwn and gets a new identity: initiators will take it for a new disk"));
        }
        let block_size = object.attributes.block_size.unwrap_or(512);
        self.imported.config.units.push(UnitSpec {
            name,
            serial: if naa.is_some() {
                object.wwn.clone()
            } else {
                String::new()
            },
            naa: naa.unwrap_or_default(),
            backend,
            block_size,
            physical_block_size: block_size.max(4096),
            write_cache: object.write_back || object.attributes.emulate_write_cache != 0,
            read_only: object.readonly,
            thin: object.attributes.emulate_tpu != 0,
            threshold_percent: None,
            offline: false,
        });
    }

    fn target(&mut self, target: &Target) {
        if target.fabric != "iscsi" {
            return self.note(format!(
                "target {} was left out: its fabric is {}",
                target.wwn, target.fabric
            ));
        }
        let iqn = match name::normalise(&target.wwn) {
            Ok(iqn) => iqn,
            Err(error) => return self.note(format!("target {} was left out: {error}", target.wwn)),
        };
        let mut groups = Vec::new();
        let mut mutual = None;
        for tpg in &target.tpgs {
            let portals: Vec<_> = tpg
                .portals
                .iter()
                .filter_map(|portal| self.portal(&iqn, portal))
                .collect();
            if !tpg.enable || portals.is_empty() {
                self.note(format!(
                    "portal group {} of {iqn} was left out: it is disabled or has no address",
                    tpg.tag
                ));
                continue;
            }
            groups.push(PortalGroupSpec {
                tag: tpg.tag,
                relative_port_id: 0,
                target_port_group: 1,
                portals,
                alua_state: Default::default(),
            });
            self.maps(&iqn, tpg, &mut mutual);
        }
        if groups.is_empty() {
            return self.note(format!(
                "target {iqn} was left out: no portal group of it is left"
            ));
        }
        self.imported.config.targets.push(TargetSpec {
            iqn,
            alias: String::new(),
            portal_groups: groups,
            alua: Default::default(),
            redirect: None,
            mutual_chap: mutual,
            parameters: Default::default(),
            offline: false,
        });
    }

    fn portal(&mut self, iqn: &str, portal: &Portal) -> Option<SocketAddr> {
        if portal.iser {
            self.note(format!(
                "portal {}:{} of {iqn} was left out: iSER is not offered",
                portal.ip_address, portal.port
            ));
            return None;
        }
        match portal.ip_address.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(ip) => Some(SocketAddr::new(ip, portal.port)),
            Err(_) => {
                self.note(format!(
                    "portal {:?} of {iqn} was left out: it is no address",
                    portal.ip_address
                ));
                None
            }
        }
    }

    fn maps(&mut self, iqn: &str, tpg: &Tpg, mutual: &mut Option<ChapSecret>) {
        for acl in &tpg.node_acls {
            let Some(host) = self.host(acl, tpg.attributes.authentication == 1, mutual) else {
                continue;
            };
            for mapped in &acl.mapped_luns {
                let lun = tpg.luns.iter().find(|lun| lun.index == mapped.tpg_lun);
                if let Some(unit) = lun.and_then(|lun| self.unit_of(lun)) {
                    self.map(MapSpec {
                        unit,
                        host: Some(host.clone()),
                        target: Some(iqn.to_owned()),
                        lun: mapped.index,
                        read_only: mapped.write_protect,
                    });
                }
            }
        }
        if tpg.attributes.generate_node_acls == 0 {
            return;
        }
        if !tpg.node_acls.is_empty() {
            return self.note(format!("{iqn} shows its LUNs to everyone (generate_node_acls) beside its ACLs; only the ACLs were taken over"));
        }
        for lun in &tpg.luns {
            if let Some(unit) = self.unit_of(lun) {
                let read_only = tpg.attributes.demo_mode_write_protect != 0;
                self.map(MapSpec {
                    unit,
                    host: None,
                    target: Some(iqn.to_owned()),
                    lun: lun.index,
                    read_only,
                });
            }
        }
    }

    /// LIO maps once per portal group; a map of ours covers all groups of a target.
    fn map(&mut self, map: MapSpec) {
        if !self.imported.config.maps.contains(&map) {
            self.imported.config.maps.push(map);
        }
    }

    /// The unit behind `/backstores/PLUGIN/NAME`.
    fn unit_of(&mut self, lun: &Lun) -> Option<String> {
        let name = super::plain_name(lun.storage_object.rsplit('/').next().unwrap_or_default());
        let found = self
            .imported
            .config
            .unit(&name)
            .map(|unit| unit.name.clone());
        if found.is_none() {
            self.note(format!(
                "LUN {} was left out: {} was not taken over",
                lun.index, lun.storage_object
            ));
        }
        found
    }

    fn host(
        &mut self,
        acl: &NodeAcl,
        authentication: bool,
        mutual: &mut Option<ChapSecret>,
    ) -> Option<String> {
        let initiator = match name::normalise_pattern(&acl.node_wwn) {
            Ok(initiator) => initiator,
            Err(error) => {
                self.note(format!("the ACL of {} was left out: {error}", acl.node_wwn));
                return None;
            }
        };
        let secret = |user: &str, secret: &str| {
            (authentication && !user.is_empty()).then(|| ChapSecret {
                user: user.to_owned(),
                secret: secret.to_owned(),
            })
        };
        let chap = secret(&acl.chap_userid, &acl.chap_password);
        if mutual.is_none() {
            *mutual = secret(&acl.chap_mutual_userid, &acl.chap_mutual_password);
        }
        let config = &mut self.imported.config;
        if let Some(host) = config
            .hosts
            .iter_mut()
            .find(|host| host.initiators.contains(&initiator))
        {
            let name = host.name.clone();
            if host.chap.is_none() {
                host.chap = chap;
            } else if chap.is_some() && host.chap != chap {
                self.note(format!("{initiator} has different secrets at different targets; the first was taken over"));
            }
            return Some(name);
        }
        let own = initiator
            .rsplit(':')
            .find(|part| !part.is_empty())
            .unwrap_or(&initiator);
        let name = free_name(own, |name| config.host(name).is_some());
        config.hosts.push(HostSpec {
            name: name.clone(),
            initiators: vec![initiator],
            chap,
        });
        Some(name)
    }
}

/// LIO's designator for a serial number (drivers/target: type 6, company id, 25 digits of the
/// serial number without what is no digit).
fn naa(wwn: &str) -> Option<String> {
    let digits: String = wwn
        .chars()
        .filter(char::is_ascii_hexdigit)
        .take(25)
        .collect();
    (digits.len() == 25).then(|| format!("{LIO_NAA}{}", digits.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests;
