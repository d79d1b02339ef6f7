//! Access to a target of SCST, as rules of which the first fitting one decides.

use std::net::{IpAddr, Ipv4Addr};

use super::device::unknown;
use super::parse::{Node, kernel_number};
use super::{Import, attributes, is_user, portal, secrets};
use crate::import::access::{Lun, Name, Rule};
use crate::import::parameters;
use model::Error;
use model::config::ChapSecret;

/// Addresses of a target, and the rules that hold at all of them.
type AtAddresses = (Vec<IpAddr>, Vec<Rule>);

impl Import<'_> {
    /// Returns the addresses at which the same names belong to the same groups, and their rules.
    pub(super) fn at_one_rule(
        &mut self,
        iqn: &str,
        target: &Node,
        all: Vec<IpAddr>,
    ) -> Result<Option<AtAddresses>, Error> {
        if all.is_empty() {
            let any = vec![Ipv4Addr::UNSPECIFIED.into()];
            let rules = self.rules(iqn, target, None)?;
            return Ok(rules.map(|rules| (any, rules)));
        }
        let per_portal = target.on("per_portal_acl")?;
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
            if per_portal && !(self.machine.has_address)(ip) {
                self.imported
                    .leave_out(what, "it is not an address of this machine");
                continue;
            }
            let Some(rules) = self.rules(iqn, target, Some(ip))? else {
                return Ok(None);
            };
            if rules
                .iter()
                .all(|rule| rule.names.is_empty() || rule.luns.is_empty())
            {
                self.imported
                    .leave_out(what, "no initiator sees a LUN there");
                continue;
            }
            match &mut kept {
                None => kept = Some((vec![ip], rules)),
                Some((addresses, first)) if *first == rules => addresses.push(ip),
                Some(_) => {
                    let why =
                        "its initiators or their LUNs differ from those of the portal before it";
                    self.imported.leave_out(what, why);
                }
            }
        }
        if kept.is_none() {
            self.imported
                .leave_out(format!("target {iqn}"), "none of its portals is left");
        }
        Ok(kept)
    }

    /// Returns the rules of a target's groups, and then of everybody. Returns `None` if they cannot
    /// be told apart; the target was then named.
    fn rules(
        &mut self,
        iqn: &str,
        target: &Node,
        address: Option<IpAddr>,
    ) -> Result<Option<Vec<Rule>>, Error> {
        let secrets = secrets(target, "IncomingUser")?;
        if is_black_hole(target)? {
            self.imported
                .leave_out(format!("every LUN of {iqn}"), "its black_hole is set");
            return Ok(Some(Vec::new()));
        }
        let per_portal = target.on("per_portal_acl")?;
        let mut groups: Vec<&Node> = target.all("GROUP").collect();
        groups.sort_by_key(|group| group.arg(0));
        let mut rules = Vec::new();
        for group in &groups {
            group.has_args(1)?;
            group.has_blocks(&["LUN", "INITIATOR"])?;
            let name = format!("group {} of {iqn}", group.arg(0));
            self.name_the_rest(&name, group, attributes::GROUP);
            let mut names = Vec::new();
            for initiator in group.all("INITIATOR") {
                initiator.has_args(1)?;
                let given = initiator.arg(0);
                let Some(own) = portal::names(given, per_portal, address) else {
                    let why =
                        format!("a host cannot have the members that {given} of {name} stands for");
                    self.imported.leave_out(format!("target {iqn}"), why);
                    return Ok(None);
                };
                if own.is_empty() {
                    let why = "it matches no initiator (a # needs per_portal_acl 1, and may name another \
                               portal)";
                    self.imported
                        .leave_out(format!("initiator {given} of {name}"), why);
                }
                if let Some(other) = other_group(&groups, group, given) {
                    let why = format!("group {other} has it too, and SCST may choose either group");
                    self.imported
                        .leave_out(format!("initiator {given} of {name}"), why);
                    rules.insert(0, shut_out(given, &own));
                }
                names.extend(own);
            }
            if group.all("INITIATOR").next().is_none() && group.all("LUN").next().is_some() {
                let why = "it has no initiators that could see its LUNs";
                self.imported.leave_out(name.clone(), why);
            }
            rules.push(self.rule(name, group, names, &secrets)?);
        }
        let name = format!("every initiator in no group of {iqn}");
        rules.push(self.rule(name, target, vec![Name::everyone()], &secrets)?);
        Ok(Some(rules))
    }

    fn rule(
        &mut self,
        name: String,
        owner: &Node,
        names: Vec<Name>,
        secrets: &[ChapSecret],
    ) -> Result<Rule, Error> {
        let black_hole = is_black_hole(owner)?;
        let mut luns = Vec::new();
        for lun in owner.all("LUN") {
            lun.has_args(2)?;
            lun.has_blocks(&[])?;
            let (number, device) = (lun.arg(0), lun.arg(1));
            let what = format!("LUN {number} ({device}) of {name}");
            let Some(number) = kernel_number(number) else {
                return Err(lun.refused(&format!("the LUN {number:?} is not a whole number")));
            };
            let read_only = lun.on("read_only")?;
            if let Some(attribute) = lun.children.iter().find(|c| c.keyword != "read_only") {
                self.imported.leave_out(what, unknown(attribute, "LUN"));
                continue;
            }
            match (u16::try_from(number), self.units.get(device)) {
                _ if black_hole => self
                    .imported
                    .leave_out(what, "the black_hole of its group or target is set"),
                (Ok(lun), Some(unit)) => luns.push(Lun {
                    lun,
                    unit: unit.clone(),
                    read_only,
                }),
                (Err(_), _) => self.imported.leave_out(what, "the number is too high"),
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
        Ok(Rule {
            name,
            short: short.to_owned(),
            names,
            secrets: secrets.to_vec(),
            luns,
        })
    }
}

/// Returns the first attribute of a target, or of one of its groups, that SCST does not have.
pub(super) fn unknown_in(target: &Node) -> Option<String> {
    let own = target.children.iter().find(|child| {
        let key = child.keyword.as_str();
        !is_user(child)
            && !attributes::TARGET.contains(&key)
            && !attributes::TARGET_WITHOUT.contains(&key)
            && !parameters::is_known(key)
    });
    let groups = target.all("GROUP").flat_map(|group| &group.children);
    let in_group = |child: &&Node| {
        let key = child.keyword.as_str();
        !attributes::GROUP.contains(&key) && !attributes::GROUP_WITHOUT.contains(&key)
    };
    own.map(|child| unknown(child, "target"))
        .or_else(|| Some(unknown(groups.into_iter().find(in_group)?, "group")))
}

/// Finds another group that also has the pattern of an initiator.
fn other_group<'a>(groups: &[&'a Node], own: &Node, pattern: &str) -> Option<&'a str> {
    let has = |group: &&&Node| group.all("INITIATOR").any(|node| node.arg(0) == pattern);
    let others = groups.iter().filter(|group| group.arg(0) != own.arg(0));
    others.into_iter().find(has).map(|group| group.arg(0))
}

/// Returns a rule, to stand before the others, by which initiators see nothing.
fn shut_out(pattern: &str, names: &[Name]) -> Rule {
    Rule {
        name: format!("initiator {pattern} of several groups"),
        short: String::new(),
        names: names.to_vec(),
        secrets: Vec::new(),
        luns: Vec::new(),
    }
}

fn is_black_hole(node: &Node) -> Result<bool, Error> {
    Ok(node.number("black_hole")?.is_some_and(|kind| kind != 0))
}
