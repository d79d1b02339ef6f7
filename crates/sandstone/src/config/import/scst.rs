//! SCST's scst.conf, as scstadmin writes it.
//!
//! SCST's `usn` and `naa_id` are taken over where the file names them. Files have no size there: the size is that of the file on
//! this machine.
//!
//! # Who gets in with SCST
//! An initiator belongs to the first group of a target that has a pattern for its name. It sees the LUNs of that group only,
//! and nothing where the group has none. Whoever is in no group sees the LUNs that stand in the target itself. Each
//! IncomingUser of a target is proof enough for it; without one it asks for no proof.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use super::access::{Lun, Name, Rule, Source, carry};
use super::{Imported, parameters};
use crate::config::Error;
use crate::config::model::{ChapSecret, PortalGroupSpec, TargetSpec};
use crate::config::name;

mod device;
mod parse;
mod portal;

use parse::{Node, parse};

/// The port of iSCSI; SCST has one for the whole daemon, and scst.conf does not name it.
const PORT: u16 = 3260;

/// Attributes of targets that are read here, or that mean nothing for what initiators meet.
const TARGET_ATTRIBUTES: [&str; 16] = [
    "LUN",
    "GROUP",
    "enabled",
    "rel_tgt_id",
    "alias",
    "allowed_portal",
    "per_portal_acl",
    "IncomingUser",
    "OutgoingUser",
    "redirect",
    "cpu_mask",
    "io_grouping_type",
    "comment",
    "addr_method",
    "hw_target",
    "black_hole",
];

/// What this machine tells about the files and addresses that the file names.
pub struct Machine<'a> {
    /// The size of a file or device in bytes, `None` where there is none.
    pub size_of: &'a dyn Fn(&Path) -> Option<u64>,
    /// Whether an address is one of this machine's.
    pub has_address: &'a dyn Fn(IpAddr) -> bool,
}

/// Reads a scst.conf.
///
/// # Errors
/// A line is not understood, or discovery asks for a proof that we cannot ask for.
pub fn read(text: &str, machine: &Machine<'_>) -> Result<Imported, Error> {
    let root = parse(text)?;
    let mut import = Import {
        imported: Imported::default(),
        machine,
        units: BTreeMap::new(),
        targets: Vec::new(),
    };
    for handler in root.all("HANDLER") {
        for device in handler.all("DEVICE") {
            import.imported.devices += 1;
            import.unit(handler.arg(0), device);
        }
    }
    for driver in root.all("TARGET_DRIVER") {
        import.driver(driver)?;
    }
    for group in root.all("DEVICE_GROUP") {
        let why = "set ALUA states with `sandstone target portal add`";
        let what = format!("device group {}", group.arg(0));
        import.imported.leave_out(what, why);
    }
    import.listen_at_named_addresses();
    let mut sources = Vec::new();
    for (spec, source) in std::mem::take(&mut import.targets) {
        if import.imported.add_target(spec) {
            sources.push(source);
        }
    }
    carry(&sources, &mut import.imported);
    super::drop_reflected(&mut import.imported);
    Ok(import.imported)
}

struct Import<'a> {
    imported: Imported,
    machine: &'a Machine<'a>,
    /// Units by the names of SCST's devices.
    units: BTreeMap<String, String>,
    targets: Vec<(TargetSpec, Source)>,
}

impl Import<'_> {
    fn driver(&mut self, driver: &Node) -> Result<(), Error> {
        let targets = driver.all("TARGET").count();
        if driver.arg(0) != "iscsi" {
            let what = format!("the driver {}", driver.arg(0));
            self.imported.leave_out(what, "only iSCSI is served");
            return Ok(());
        }
        self.imported.targets += targets;
        self.discovery(driver)?;
        self.name_the_rest(
            "the driver",
            driver,
            &[
                "enabled",
                "TARGET",
                "IncomingUser",
                "OutgoingUser",
                "link_local",
                "iSNSServer",
            ],
        );
        if driver
            .value("iSNSServer")
            .is_some_and(|server| !server.is_empty())
        {
            self.imported.leave_out(
                "the iSNS server",
                "set isns_servers with `sandstone config apply`",
            );
        }
        let off = driver.value("enabled") == Some("0");
        for target in driver.all("TARGET") {
            self.target(target, off);
        }
        Ok(())
    }

    /// Users in the driver itself are for discovery sessions.
    fn discovery(&mut self, driver: &Node) -> Result<(), Error> {
        let all = secrets(driver, "IncomingUser");
        let usable: Vec<_> = all
            .iter()
            .filter(|s| super::unusable(s).is_none())
            .collect();
        if let (Some(first), None) = (all.first(), usable.first()) {
            return Err(Error::invalid(
                format!(
                    "discovery asks for a proof that cannot be asked for here: user {:?}: {}",
                    first.user,
                    super::unusable(first).unwrap_or_default()
                ),
                "give the IncomingUser of the TARGET_DRIVER a secret of 12 bytes or more in the file, or remove it; then import it again",
            ));
        }
        if usable.len() > 1 {
            self.imported.note(format!(
                "discovery knows several users; initiators discover as {}, no longer as the others",
                usable[0].user
            ));
        }
        let outgoing = secrets(driver, "OutgoingUser").into_iter().next();
        self.imported.config.discovery_chap = usable.first().map(|secret| (*secret).clone());
        self.imported.config.discovery_mutual_chap =
            super::mutual(&mut self.imported, "discovery", outgoing);
        Ok(())
    }

    fn target(&mut self, target: &Node, off: bool) {
        let source = format!("target {}", target.arg(0));
        let iqn = target.arg(0).to_owned();
        if let Err(fault) = name::foreign(&iqn) {
            return self.imported.leave_out(source, fault);
        }
        let known = |(target, _): &(TargetSpec, Source)| name::is_same(&target.iqn, &iqn);
        if self.targets.iter().any(known) {
            let why =
                "logins do not tell it from another one, whose name differs in capitals at most";
            return self.imported.leave_out(source, why);
        }
        let Some(addresses) = portal::addresses(target) else {
            let why = "its allowed_portal lines name no single address";
            return self.imported.leave_out(source, why);
        };
        let Some((addresses, rules)) = self.at_one_rule(&iqn, target, addresses) else {
            return;
        };
        let portals = addresses
            .iter()
            .map(|ip| SocketAddr::new(*ip, PORT))
            .collect();
        let relative_port_id = target
            .value("rel_tgt_id")
            .and_then(|v| v.parse().ok())
            .unwrap_or(0);
        let targets = self.targets.iter();
        let mut groups = targets.flat_map(|(target, _)| &target.portal_groups);
        let taken = groups.any(|group| group.relative_port_id == relative_port_id);
        let redirects = target
            .value("redirect")
            .is_some_and(|to| !to.is_empty() && to != "<NULL>");
        if redirects {
            let why = "the target is offline until you set it with `sandstone target redirect`";
            self.imported
                .leave_out(format!("the redirection of {iqn}"), why);
        }
        let offline = off || redirects || !target.on("enabled");
        if offline {
            self.imported.note(format!(
                "target {iqn} is offline; `sandstone target online {}` serves it",
                name::shown(&iqn)
            ));
        }
        let outgoing = secrets(target, "OutgoingUser");
        if outgoing.len() > 1 {
            self.imported.note(format!(
                "{iqn} proves itself as several users; as the first only now"
            ));
        }
        let spec = TargetSpec {
            iqn: iqn.clone(),
            alias: target.value("alias").unwrap_or_default().to_owned(),
            portal_groups: vec![PortalGroupSpec {
                tag: 1,
                relative_port_id: if taken { 0 } else { relative_port_id },
                target_port_group: 1,
                portals,
                alua_state: Default::default(),
            }],
            alua: Default::default(),
            redirect: None,
            mutual_chap: super::mutual(&mut self.imported, &iqn, outgoing.into_iter().next()),
            parameters: self.parameters(&iqn, target),
            offline,
        };
        self.targets.push((spec, Source { iqn, rules }));
    }

    fn parameters(&mut self, iqn: &str, target: &Node) -> crate::config::model::TargetParameters {
        let others = target.children.iter().filter(|child| {
            let key = child.keyword.as_str();
            let user = key.starts_with("IncomingUser") || key.starts_with("OutgoingUser");
            !user && !TARGET_ATTRIBUTES.contains(&key)
        });
        let others = others.map(|child| (child.keyword.as_str(), child.arg(0)));
        parameters::taken_over(&mut self.imported, iqn, others)
    }

    /// The addresses at which the same names belong to the same groups, and those rules.
    fn at_one_rule(
        &mut self,
        iqn: &str,
        target: &Node,
        all: Vec<IpAddr>,
    ) -> Option<(Vec<IpAddr>, Vec<Rule>)> {
        if all.is_empty() {
            let any = vec![Ipv4Addr::UNSPECIFIED.into()];
            return Some((any, self.rules(iqn, target, None)?));
        }
        let mut allowed = target.all("allowed_portal").peekable();
        let all_named =
            allowed.peek().is_some() && allowed.all(|node| node.arg(0).parse::<IpAddr>().is_ok());
        if !all_named {
            self.imported.note(format!(
                "target {iqn} listens only at the addresses that its allowed_portal and INITIATOR lines name"
            ));
        }
        let mut kept: Option<(Vec<IpAddr>, Vec<Rule>)> = None;
        for ip in all {
            let what = format!("portal {ip} of {iqn}");
            if target.on("per_portal_acl") && !(self.machine.has_address)(ip) {
                self.imported
                    .leave_out(what, "it is no address of this machine");
                continue;
            }
            let rules = self.rules(iqn, target, Some(ip))?;
            if rules
                .iter()
                .all(|rule| rule.names.is_empty() || rule.luns.is_empty())
            {
                self.imported.leave_out(what, "nobody sees a LUN there");
                continue;
            }
            match &mut kept {
                None => kept = Some((vec![ip], rules)),
                Some((addresses, first)) if *first == rules => addresses.push(ip),
                Some(_) => {
                    let why = "other initiators see other LUNs there than at the portal before it";
                    self.imported.leave_out(what, why);
                }
            }
        }
        if kept.is_none() {
            self.imported
                .leave_out(format!("target {iqn}"), "no portal of it is left");
        }
        kept
    }

    /// Its groups, and then everybody. Nothing where they cannot be told apart; the target was named then.
    fn rules(&mut self, iqn: &str, target: &Node, address: Option<IpAddr>) -> Option<Vec<Rule>> {
        let secrets = secrets(target, "IncomingUser");
        if target.on("black_hole") {
            self.imported
                .leave_out(format!("the LUNs of {iqn}"), "it is a black hole");
            return Some(Vec::new());
        }
        let per_portal = target.on("per_portal_acl");
        let mut rules = Vec::new();
        for group in target.all("GROUP") {
            let name = format!("group {} of {iqn}", group.arg(0));
            let mut names = Vec::new();
            for initiator in group.all("INITIATOR") {
                let given = initiator.arg(0);
                let Some(own) = portal::names(given, per_portal, address) else {
                    let why = format!("no host can have the members that {given} of {name} means");
                    self.imported.leave_out(format!("target {iqn}"), why);
                    return None;
                };
                if own.is_empty() {
                    let why = "it matches no initiator (a # needs per_portal_acl 1, and another portal may be meant)";
                    self.imported
                        .leave_out(format!("initiator {given} of {name}"), why);
                }
                names.extend(own);
            }
            rules.push(self.rule(name, group, names, &secrets));
        }
        let name = format!("everybody in no group of {iqn}");
        rules.push(self.rule(name, target, vec![Name::everyone()], &secrets));
        Some(rules)
    }

    fn rule(
        &mut self,
        name: String,
        owner: &Node,
        names: Vec<Name>,
        secrets: &[ChapSecret],
    ) -> Rule {
        // The target's own attributes are looked at with its parameters.
        if owner.keyword == "GROUP" {
            let known = [
                "LUN",
                "INITIATOR",
                "cpu_mask",
                "io_grouping_type",
                "addr_method",
                "black_hole",
            ];
            self.name_the_rest(&name, owner, &known);
        }
        let mut luns = Vec::new();
        for lun in owner.all("LUN") {
            let (number, device) = (lun.arg(0), lun.arg(1));
            let what = format!("LUN {number} ({device}) of {name}");
            match (number.parse(), self.units.get(device)) {
                _ if owner.on("black_hole") => self.imported.leave_out(what, "it is a black hole"),
                (Ok(lun_number), Some(unit)) => luns.push(Lun {
                    lun: lun_number,
                    unit: unit.clone(),
                    read_only: lun.on("read_only"),
                }),
                (Err(_), _) => self
                    .imported
                    .leave_out(what, "its number is none that can be used"),
                (_, None) => self
                    .imported
                    .leave_out(what, "the device was not taken over"),
            }
        }
        let short = if owner.keyword == "GROUP" {
            owner.arg(0)
        } else {
            "everybody"
        };
        Rule {
            name,
            short: short.to_owned(),
            names,
            secrets: secrets.to_vec(),
            luns,
        }
    }

    /// Where some target is bound to an address, those that listen everywhere listen at all the addresses that are named: a
    /// port is taken on single addresses, or on all of them.
    fn listen_at_named_addresses(&mut self) {
        let targets = self.targets.iter();
        let groups = targets.flat_map(|(target, _)| &target.portal_groups);
        let mut named: Vec<SocketAddr> = groups
            .flat_map(|group| group.portals.clone())
            .filter(|portal| portal.is_ipv4() && !portal.ip().is_unspecified())
            .collect();
        named.sort();
        named.dedup();
        if named.is_empty() {
            return;
        }
        let mut notes = Vec::new();
        for (target, _) in &mut self.targets {
            for group in &mut target.portal_groups {
                if group
                    .portals
                    .iter()
                    .any(|portal| portal.ip().is_unspecified())
                {
                    group.portals.clone_from(&named);
                    let list: Vec<_> = named.iter().map(ToString::to_string).collect();
                    notes.push(format!(
                        "target {} listens at {} only: another target has a single address",
                        target.iqn,
                        list.join(", ")
                    ));
                }
            }
        }
        for note in notes {
            self.imported.note(note);
        }
    }
}

/// `IncomingUser "user secret"`; the second and further ones may have a number.
fn secrets(owner: &Node, keyword: &str) -> Vec<ChapSecret> {
    let numbered = |node: &&Node| {
        let number = node.keyword.strip_prefix(keyword);
        number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
    };
    let pair = |node: &Node| {
        let text = node.args.join(" ");
        let mut words = text.split_whitespace();
        // A user without a secret is one that nobody can be.
        Some(ChapSecret {
            user: words.next()?.to_owned(),
            secret: words.next().unwrap_or_default().to_owned(),
        })
    };
    owner
        .children
        .iter()
        .filter(numbered)
        .filter_map(pair)
        .collect()
}

#[cfg(test)]
mod tests;
