//! LIO's saveconfig.json, as targetcli writes it.
//!
//! LIO makes its NAA designator from its own company id and the hexadecimal digits of the serial
//! number. So both can be taken over exactly, and ESXi keeps its datastores.
//!
//! # Access rules of LIO
//! A portal group requires CHAP if its attribute `authentication` is 1 (the default), or if its
//! AuthMethod does not offer None; an ACL may say otherwise for its initiator. Each ACL has a user
//! of its own. If CHAP is required, an ACL without a user lets nobody in. With
//! `generate_node_acls`, initiators without an ACL see all LUNs of the portal group, with the
//! portal group's user.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use super::access::{Name, Rule, Source, carry};
use super::dropped::Dropped;
use super::{Imported, free_name, parameters};
use model::Error;
use model::config::{BackendSpec, ChapSecret, PortalGroupSpec, TargetSpec, UnitSpec};
use model::name;

mod attributes;
mod file;

use file::{Lun, NodeAcl, Portal, SaveConfig, StorageObject, Target, Tpg};

/// Beginning of LIO's designators: type 6 and its company id.
const LIO_NAA: &str = "6001405";

const NEXT: &str = "give the file that `targetcli saveconfig` writes, usually /etc/rtslib-fb-target/saveconfig.json";

/// Reads a saveconfig.json.
///
/// # Errors
/// The text is no saveconfig.json, or its discovery requires a proof that Sandstone cannot require.
pub fn read(text: &str) -> Result<Imported, Error> {
    let saved: SaveConfig = serde_json::from_slice(text.as_bytes())
        .map_err(|e| Error::invalid(format!("this is not a saveconfig.json of LIO: {e}"), NEXT))?;
    if saved.storage_objects.is_empty() && saved.targets.is_empty() {
        return Err(Error::invalid(
            "line 1: this is not a saveconfig.json of LIO: it has neither storage_objects nor targets",
            NEXT,
        ));
    }
    let mut import = Import::default();
    import.imported.devices = saved.storage_objects.len();
    import.imported.targets = saved.targets.len();
    import.discovery(&saved)?;
    for object in &saved.storage_objects {
        import.unit(object);
    }
    for target in &saved.targets {
        let same = |other: &&Target| name::is_same(&other.wwn, &target.wwn);
        let twice = saved.targets.iter().filter(same).count() > 1;
        import.target(target, twice);
    }
    import.drop_rest("the file", &saved.rest, &[]);
    std::mem::take(&mut import.dropped).tell(&mut import.imported);
    carry(&import.sources, &mut import.imported);
    super::drop_reflected(&mut import.imported);
    Ok(import.imported)
}

#[derive(Default)]
struct Import {
    imported: Imported,
    dropped: Dropped,
    /// Units, by the path with which LIO's LUNs name them.
    units: BTreeMap<String, String>,
    sources: Vec<Source>,
}

impl Import {
    /// Translates discovery. Discovery sessions have one user for all of a daemon.
    fn discovery(&mut self, saved: &SaveConfig) -> Result<(), Error> {
        let Some(iscsi) = saved.fabric_modules.iter().find(|m| m.name == "iscsi") else {
            return Ok(());
        };
        let secret = secret(&iscsi.discovery_userid, &iscsi.discovery_password);
        if iscsi.discovery_enable_auth == Some(true) {
            let usable = secret.as_ref().map(super::unusable);
            if usable != Some(None) {
                return Err(Error::invalid(
                    format!(
                        "discovery requires a CHAP login that Sandstone cannot require: {}",
                        usable
                            .flatten()
                            .unwrap_or("its user or its secret is missing")
                    ),
                    "in the file, set discovery_userid and a discovery_password of 12 bytes or more, or discovery_enable_auth to false; then import it again",
                ));
            }
            self.imported.config.discovery_chap = secret;
        }
        let mutual = self::secret(
            &iscsi.discovery_mutual_userid,
            &iscsi.discovery_mutual_password,
        );
        self.imported.config.discovery_mutual_chap =
            super::mutual(&mut self.imported, "discovery", mutual);
        Ok(())
    }

    fn unit(&mut self, object: &StorageObject) {
        let source = format!("storage object {}", object.name);
        let backend = match object.plugin.as_str() {
            "block" => BackendSpec::device(&object.dev),
            "fileio" if object.dev.starts_with("/dev/") => BackendSpec::device(&object.dev),
            "fileio" => BackendSpec::file(&object.dev, object.size),
            // A disk of this kind forgets what is written to it.
            "ramdisk" if object.rest.contains_key("nullio") => {
                return self
                    .imported
                    .leave_out(source, "its type is nullio, which stores no data");
            }
            "ramdisk" => BackendSpec::memory(object.size),
            other => {
                let why = format!("Sandstone has no backend like {other}");
                return self.imported.leave_out(source, why);
            }
        };
        if let Some(field) = attributes::unknown_field(object) {
            let why = format!("LIO does not know its field {field}, which may restrict access");
            return self.imported.leave_out(source, why);
        }
        let config = &self.imported.config;
        let name = free_name(&object.name, |name| config.unit(name).is_some());
        if name != object.name {
            self.imported
                .note(format!("{source} is now the logical unit {name}"));
        }
        let naa = naa(&object.wwn);
        if naa.is_none() {
            self.imported.note(format!("{name} has no usable wwn and gets a new identity: initiators will take it for a new disk"));
        }
        self.drop_of_object(object);
        let attribute = |key: &str| object.attributes.get(key);
        let block_size = attribute("block_size").copied().unwrap_or(512);
        let block_size = u32::try_from(block_size).unwrap_or(0);
        let unit = UnitSpec {
            name,
            serial: naa.as_ref().map_or(String::new(), |_| object.wwn.clone()),
            naa: naa.unwrap_or_default(),
            backend,
            block_size,
            physical_block_size: block_size.max(4096),
            write_cache: object.write_back == Some(true)
                || on(attribute("emulate_write_cache"), false),
            read_only: object.readonly == Some(true),
            thin: on(attribute("emulate_tpu"), false) || on(attribute("emulate_tpws"), false),
            threshold_percent: None,
            offline: false,
        };
        if let Some(name) = self.imported.add_unit(&source, unit) {
            let path = format!("/backstores/{}/{}", object.plugin, object.name);
            self.units.entry(path).or_insert(name);
        }
    }

    fn target(&mut self, target: &Target, twice: bool) {
        let source = format!("target {}", target.wwn);
        if target.fabric != "iscsi" {
            let why = format!("its fabric is {}", target.fabric);
            return self.imported.leave_out(source, why);
        }
        self.drop_rest(&source, &target.rest, &[]);
        let iqn = match name::foreign(&target.wwn) {
            Ok(()) if !twice => target.wwn.clone(),
            Ok(_) => {
                return self
                    .imported
                    .leave_out(source, "the file contains it twice");
            }
            Err(error) => return self.imported.leave_out(source, error),
        };
        let (mut groups, mut rules) = (Vec::new(), None);
        let (mut mutuals, mut given) = (Vec::new(), Vec::new());
        for tpg in &target.tpgs {
            let what = format!("portal group {} of {iqn}", tpg.tag);
            let portals: Vec<_> = tpg
                .portals
                .iter()
                .filter_map(|portal| self.portal(&iqn, portal))
                .collect();
            if tpg.enable == Some(false) || portals.is_empty() {
                self.imported
                    .leave_out(what, "it is disabled or has no address");
                continue;
            }
            let own = self.rules(&iqn, tpg);
            // A map of Sandstone leads to all portal groups of a target.
            if rules.get_or_insert_with(|| own.clone()) != &own {
                let why = "it admits other initiators, or shows other LUNs, than the portal group before it";
                self.imported.leave_out(what, why);
                continue;
            }
            if groups.is_empty() {
                given = self.parameters(&iqn, tpg);
            } else if self.parameters(&iqn, tpg) != given {
                self.imported.note(format!(
                    "{what} now has the parameters of the first portal group"
                ));
            }
            mutuals.extend(mutual(tpg));
            groups.push(PortalGroupSpec {
                tag: tpg.tag,
                relative_port_id: 0,
                target_port_group: 1,
                portals,
                alua_state: Default::default(),
            });
        }
        if groups.is_empty() {
            return self
                .imported
                .leave_out(source, "none of its portal groups is left");
        }
        let parameters = given
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        let parameters = parameters::taken_over(&mut self.imported, &iqn, parameters);
        let spec = TargetSpec {
            iqn: iqn.clone(),
            alias: String::new(),
            portal_groups: groups,
            alua: Default::default(),
            redirect: None,
            mutual_chap: self.mutual(&iqn, mutuals),
            parameters,
            offline: false,
        };
        if self.imported.add_target(spec) {
            let rules = rules.unwrap_or_default();
            self.sources.push(Source { iqn, rules });
        }
    }

    /// Chooses the mutual secret. A target here has one secret with which it authenticates; LIO has
    /// one for each ACL.
    fn mutual(&mut self, iqn: &str, secrets: Vec<ChapSecret>) -> Option<ChapSecret> {
        let mut secrets = secrets.into_iter();
        let first = secrets.next();
        if secrets.any(|other| first.as_ref() != Some(&other)) {
            self.imported.note(format!(
                "{iqn} authenticates with different secrets to different initiators; it now uses the first \
                 secret for all of them"
            ));
        }
        super::mutual(&mut self.imported, iqn, first)
    }

    fn parameters(&mut self, iqn: &str, tpg: &Tpg) -> Vec<(String, String)> {
        self.drop_of_group(iqn, tpg);
        let own = tpg.parameters.iter();
        let mut all: Vec<_> = own.map(|(k, v)| (k.clone(), v.clone())).collect();
        let depth = tpg.attributes.get_key_value("default_cmdsn_depth");
        all.extend(depth.map(|(key, depth)| (key.clone(), depth.to_string())));
        all
    }

    fn portal(&mut self, iqn: &str, portal: &Portal) -> Option<SocketAddr> {
        let what = format!("portal {}:{} of {iqn}", portal.ip_address, portal.port);
        if portal.iser == Some(true) {
            self.imported
                .leave_out(what, "Sandstone does not offer iSER");
            return None;
        }
        let Ok(ip) = portal.ip_address.trim_matches(['[', ']']).parse::<IpAddr>() else {
            self.imported.leave_out(what, "it is not an IP address");
            return None;
        };
        Some(SocketAddr::new(ip, portal.port))
    }

    /// Returns the rules of this portal group: the units that each initiator sees. An ACL decides
    /// alone for its initiator.
    fn rules(&mut self, iqn: &str, tpg: &Tpg) -> Vec<Rule> {
        let mut rules: Vec<Rule> = Vec::new();
        let offers_none = |value: &String| value.split(',').any(|m| m.trim() == "None");
        let by_method = !tpg.parameters.get("AuthMethod").is_none_or(offers_none);
        let by_attribute = on(tpg.attributes.get("authentication"), true);
        for acl in &tpg.node_acls {
            let own = acl.attributes.get("authentication");
            let own = own.filter(|own| **own != -1).map(|own| *own != 0);
            let asks = by_method || own.unwrap_or(by_attribute);
            rules.push(self.acl(iqn, tpg, acl, asks));
        }
        if on(tpg.attributes.get("generate_node_acls"), false) {
            // Units shown to everybody are write-protected unless the portal group says otherwise.
            let read_only = on(tpg.attributes.get("demo_mode_write_protect"), true);
            let name = format!("every initiator without an ACL at {iqn}");
            let luns = tpg.luns.iter();
            let luns = luns.filter_map(|lun| self.lun(&name, lun, lun.index, read_only));
            let mut rule = Rule {
                luns: luns.collect(),
                name,
                short: "everybody".into(),
                names: vec![Name::everyone()],
                secrets: Vec::new(),
            };
            let secret = secret(&tpg.chap_userid, &tpg.chap_password);
            self.prove(&mut rule, secret, by_method || by_attribute);
            rules.push(rule);
        }
        rules
    }

    fn acl(&mut self, iqn: &str, tpg: &Tpg, acl: &NodeAcl, asks: bool) -> Rule {
        let name = format!("the ACL of {} at {iqn}", acl.node_wwn);
        // An ACL of LIO is for one initiator: a wildcard in its name is an ordinary character.
        let mut initiator = Name::new(&acl.node_wwn, false);
        let same = |other: &&NodeAcl| other.node_wwn.eq_ignore_ascii_case(&acl.node_wwn);
        let twice = tpg.node_acls.iter().filter(same).count() > 1;
        if twice || acl.node_wwn.contains(['*', '?']) {
            initiator.wider = Some(acl.node_wwn.clone());
        }
        let protected = on(tpg.attributes.get("prod_mode_write_protect"), false);
        let mut luns = Vec::new();
        for mapped in &acl.mapped_luns {
            let read_only = protected || mapped.write_protect == Some(true);
            match tpg.luns.iter().find(|lun| lun.index == mapped.tpg_lun) {
                Some(lun) => luns.extend(self.lun(&name, lun, mapped.index, read_only)),
                None => {
                    let what = format!("LUN {} of {name}", mapped.index);
                    self.imported
                        .leave_out(what, "its portal group does not have this LUN");
                }
            }
        }
        let mut rule = Rule {
            name,
            short: "acl".into(),
            names: vec![initiator],
            secrets: Vec::new(),
            luns,
        };
        let secret = secret(&acl.chap_userid, &acl.chap_password);
        self.prove(&mut rule, secret, asks);
        rule
    }

    /// Adds the proof that the portal group requires. If no user is set, nobody can give a proof.
    fn prove(&mut self, rule: &mut Rule, secret: Option<ChapSecret>, asks: bool) {
        if !asks {
            return;
        }
        match secret {
            Some(secret) => rule.secrets.push(secret),
            None => {
                rule.luns.clear();
                let why =
                    "it requires CHAP (authentication) and has no user, so no initiator can log in";
                self.imported.leave_out(rule.name.clone(), why);
            }
        }
    }

    /// Returns the unit behind a LUN of a portal group, at the number where its initiators find it.
    fn lun(
        &mut self,
        whose: &str,
        lun: &Lun,
        number: u64,
        read_only: bool,
    ) -> Option<super::access::Lun> {
        let what = format!("LUN {number} of {whose}");
        let Some(unit) = self.units.get(&lun.storage_object) else {
            let why = format!("{} was not taken over", lun.storage_object);
            self.imported.leave_out(what, why);
            return None;
        };
        let Ok(number) = u16::try_from(number) else {
            self.imported.leave_out(what, "the number is too high");
            return None;
        };
        Some(super::access::Lun {
            lun: number,
            unit: unit.clone(),
            read_only,
        })
    }
}

/// Lists the secrets with which a portal group and its ACLs authenticate themselves.
fn mutual(tpg: &Tpg) -> Vec<ChapSecret> {
    let acls = tpg.node_acls.iter();
    let acls = acls.filter_map(|acl| secret(&acl.chap_mutual_userid, &acl.chap_mutual_password));
    acls.chain(secret(&tpg.chap_mutual_userid, &tpg.chap_mutual_password))
        .collect()
}

/// Reports whether an attribute says yes. -1 stands for a default of LIO's, which is yes as well.
fn on(value: Option<&i64>, default: bool) -> bool {
    value.map_or(default, |value| *value != 0)
}

/// Combines user and secret. LIO requires both, and lets nobody in if one of them is missing.
fn secret(user: &str, secret: &str) -> Option<ChapSecret> {
    (!user.is_empty() && !secret.is_empty()).then(|| ChapSecret {
        user: user.to_owned(),
        secret: secret.to_owned(),
    })
}

/// Returns LIO's designator for a serial number: type 6, its company id, up to 25 hexadecimal
/// digits of the serial number. Zeros fill the rest (`spc_gen_naa_6h_vendor_specific`).
fn naa(wwn: &str) -> Option<String> {
    let digits: String = wwn
        .chars()
        .filter(char::is_ascii_hexdigit)
        .take(25)
        .collect();
    (!digits.is_empty()).then(|| format!("{LIO_NAA}{:0<25}", digits.to_ascii_lowercase()))
}

#[cfg(test)]
mod mutations;
#[cfg(test)]
mod tests;
