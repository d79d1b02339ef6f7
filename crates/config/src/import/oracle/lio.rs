//! Random saveconfig.json files, and their access by the rules of LIO's kernel modules.

use serde_json::{Value, json};

use super::*;
use crate::import::lio::read;

const ACLS: [&str; 6] = [
    "iqn.2001-04.x:a",
    "iqn.2001-04.x:b",
    "iqn.2001-04.x:ab",
    "iqn.2001-04.y:b",
    "iqn.2001-04.x:*",
    "iqn.2001-04.y:[b]",
];
/// Storage objects, two of which have one name.
const OBJECTS: [(&str, &str, &str); 4] = [
    ("block", "disk1", "/dev/disk1"),
    ("fileio", "disk1", "/srv/disk1"),
    ("fileio", "disk2", "/srv/disk2"),
    ("pscsi", "tape", "/dev/st0"),
];

#[derive(Debug)]
struct Acl {
    name: &'static str,
    secret: Option<Secret>,
    mutual: Option<Secret>,
    authentication: Option<i64>,
    /// LUN, LUN of the portal group, write-protected.
    luns: Vec<(u64, u64, bool)>,
}

#[derive(Debug)]
struct Tpg {
    enabled: bool,
    addresses: Vec<&'static str>,
    authentication: Option<i64>,
    method: &'static str,
    generate: Option<i64>,
    protect: Option<i64>,
    protect_acls: bool,
    secret: Option<Secret>,
    /// LUN and object.
    luns: Vec<(u64, usize)>,
    acls: Vec<Acl>,
}

#[derive(Debug)]
pub(super) struct Saved {
    read_only: [bool; 4],
    discovery: Option<Option<Secret>>,
    targets: Vec<Vec<Tpg>>,
}

fn acls(dice: &mut Dice, luns: &[(u64, usize)]) -> Vec<Acl> {
    let mut acls: Vec<Acl> = Vec::new();
    for name in dice.some(&ACLS, 4) {
        let mut mapped: Vec<(u64, u64, bool)> = Vec::new();
        for _ in 0..dice.below(3) {
            if let Some(lun) = (!luns.is_empty()).then(|| dice.of(luns).0) {
                let map = (dice.below(4) as u64, lun, dice.one_in(3));
                if mapped.iter().all(|other| other.0 != map.0) {
                    mapped.push(map);
                }
            }
        }
        if acls.iter().all(|acl| acl.name != name) {
            acls.push(Acl {
                name,
                secret: (!dice.one_in(3)).then(|| dice.secret()),
                mutual: dice.one_in(5).then(|| dice.secret()),
                authentication: dice.of(&[None, None, None, Some(-1), Some(0), Some(1)]),
                luns: mapped,
            });
        }
    }
    acls
}

fn tpg(dice: &mut Dice, addresses: &[&'static str]) -> Tpg {
    let mut luns: Vec<(u64, usize)> = Vec::new();
    for lun in 0..dice.below(4) as u64 {
        luns.push((lun, dice.below(4)));
    }
    Tpg {
        enabled: !dice.one_in(8),
        addresses: addresses.to_vec(),
        authentication: dice.of(&[None, Some(-1), Some(0), Some(0), Some(0), Some(1)]),
        method: dice.of(&["CHAP,None", "CHAP,None", "CHAP,None", "CHAP"]),
        generate: dice.of(&[None, Some(0), Some(1)]),
        protect: dice.of(&[None, Some(0), Some(1)]),
        protect_acls: dice.one_in(8),
        secret: dice.one_in(2).then(|| dice.secret()),
        acls: acls(dice, &luns),
        luns,
    }
}

impl Saved {
    pub(super) fn random(dice: &mut Dice) -> Self {
        let targets = (0..1 + dice.below(3)).map(|_| match dice.one_in(4) {
            true => vec![tpg(dice, &ADDRESSES[..1]), tpg(dice, &ADDRESSES[1..2])],
            false => vec![tpg(dice, &ADDRESSES[..2])],
        });
        let targets = targets.collect();
        let discovery = dice
            .one_in(4)
            .then(|| (!dice.one_in(4)).then(|| dice.secret()));
        Self {
            read_only: std::array::from_fn(|_| dice.one_in(5)),
            discovery,
            targets,
        }
    }
}

fn chap(value: &mut Value, prefix: &str, secret: Option<Secret>) {
    if let Some((user, secret)) = secret {
        value[format!("{prefix}userid")] = user.into();
        value[format!("{prefix}password")] = secret.into();
    }
}

fn set(value: &mut Value, key: &str, number: Option<i64>) {
    if let Some(number) = number {
        value["attributes"][key] = number.into();
    }
}

impl Tpg {
    fn json(&self, tag: usize) -> Value {
        let luns = self.luns.iter().map(|(lun, object)| {
            let (plugin, name, _) = OBJECTS[*object];
            json!({"index": lun, "storage_object": format!("/backstores/{plugin}/{name}")})
        });
        let acls = self.acls.iter().map(|acl| {
            let luns = acl.luns.iter().map(|(index, lun, protect)| {
                json!({"index": index, "tpg_lun": lun, "write_protect": protect})
            });
            let mut json = json!({"node_wwn": acl.name, "attributes": {}, "mapped_luns": luns.collect::<Vec<_>>()});
            chap(&mut json, "chap_", acl.secret);
            chap(&mut json, "chap_mutual_", acl.mutual);
            set(&mut json, "authentication", acl.authentication);
            json
        });
        let portals = self
            .addresses
            .iter()
            .map(|ip| json!({"ip_address": ip, "port": 3260, "iser": false}));
        let mut json = json!({
            "tag": tag,
            "enable": self.enabled,
            "attributes": {"prod_mode_write_protect": u8::from(self.protect_acls)},
            "parameters": {"AuthMethod": self.method},
            "luns": luns.collect::<Vec<_>>(),
            "node_acls": acls.collect::<Vec<_>>(),
            "portals": portals.collect::<Vec<_>>(),
        });
        chap(&mut json, "chap_", self.secret);
        set(&mut json, "authentication", self.authentication);
        set(&mut json, "generate_node_acls", self.generate);
        set(&mut json, "demo_mode_write_protect", self.protect);
        json
    }

    /// Returns LUN, object, write-protected.
    fn sees(&self, initiator: &str, proof: Option<Secret>) -> Vec<(u64, usize, bool)> {
        let mut asks = self.authentication != Some(0);
        let (secret, luns) = match self.acls.iter().find(|acl| acl.name == initiator) {
            Some(acl) => {
                asks = match acl.authentication {
                    Some(0) => false,
                    Some(1) => true,
                    _ => asks,
                };
                let object = |lun: &u64| self.luns.iter().find(|(own, _)| own == lun).unwrap().1;
                let luns = acl.luns.iter();
                let luns = luns
                    .map(|(lun, own, protect)| (*lun, object(own), *protect || self.protect_acls));
                (acl.secret, luns.collect::<Vec<_>>())
            }
            None if self.generate == Some(1) => {
                let protect = self.protect != Some(0);
                (
                    self.secret,
                    self.luns
                        .iter()
                        .map(|(lun, object)| (*lun, *object, protect))
                        .collect(),
                )
            }
            None => return Vec::new(),
        };
        asks |= self.method == "CHAP";
        if asks && (secret.is_none() || secret != proof) {
            return Vec::new();
        }
        luns
    }
}

impl Original for Saved {
    fn targets(&self) -> usize {
        self.targets.len()
    }

    fn text(&self) -> String {
        let objects = OBJECTS.iter().zip(self.read_only).map(|((plugin, name, dev), read_only)| {
            json!({"plugin": plugin, "name": name, "dev": dev, "size": 1 << 20, "readonly": read_only, "wwn": ""})
        });
        let targets = self.targets.iter().zip(TARGETS).map(|(tpgs, iqn)| {
            let tpgs = tpgs
                .iter()
                .enumerate()
                .map(|(index, tpg)| tpg.json(index + 1));
            json!({"fabric": "iscsi", "wwn": iqn, "tpgs": tpgs.collect::<Vec<_>>()})
        });
        let mut saved = json!({
            "fabric_modules": [],
            "storage_objects": objects.collect::<Vec<_>>(),
            "targets": targets.collect::<Vec<_>>(),
        });
        if let Some(secret) = self.discovery {
            let mut module = json!({"name": "iscsi", "discovery_enable_auth": true});
            chap(&mut module, "discovery_", secret);
            saved["fabric_modules"] = json!([module]);
        }
        serde_json::to_string_pretty(&saved).unwrap()
    }

    fn read(&self) -> Result<Imported, Error> {
        read(&self.text())
    }

    fn sees(
        &self,
        initiator: &str,
        address: &str,
        target: usize,
        proof: Option<Secret>,
    ) -> Vec<Seen> {
        let tpgs = self.targets.get(target).into_iter().flatten();
        let mut here = tpgs.filter(|tpg| tpg.enabled && tpg.addresses.contains(&address));
        let luns = here
            .next()
            .map(|tpg| tpg.sees(initiator, proof))
            .unwrap_or_default();
        // The fourth object has no backend.
        let there = luns.into_iter().filter(|(_, object, _)| *object < 3);
        there
            .map(|(lun, object, protect)| Seen {
                lun,
                path: OBJECTS[object].2.to_owned(),
                writable: !protect && !self.read_only[object],
            })
            .collect()
    }

    fn discovers(&self, proof: Option<Secret>) -> bool {
        self.discovery
            .is_none_or(|secret| secret.is_some() && secret == proof)
    }

    fn names(&self, initiator: &str) -> Vec<String> {
        // No initiator has the name with the star, which keeps out all names that it would match.
        let star = ["iqn.2001-04.x:*".to_owned()];
        let star = star
            .into_iter()
            .filter(|_| initiator.starts_with("iqn.2001-04.x:"));
        star.chain([initiator.to_owned()]).collect()
    }
}
