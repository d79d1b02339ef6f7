//! Random scst.conf files, and their access by the rules of SCST's README.

use std::net::IpAddr;
use std::path::Path;

use super::*;
use crate::import::scst::{Machine, read};

const PATTERNS: [&str; 20] = [
    "??*",
    "*???",
    "iqn.2001-04.x:a",
    "iqn.2001-04.x:b",
    "IQN.2001-04.x:AB",
    "iqn.2001-04.x:*",
    "iqn.2001-04.x:a*",
    "iqn.2001-04.?:b",
    "*b",
    "*:a*",
    "*",
    "*?",
    "!iqn.2001-04.x:a",
    "!*b",
    "!iqn.2001-04.x:*",
    "iqn.2001-04.y:[b]",
    "!iqn.2001-04.y:[b]",
    "iqn.2001-04.!x:*",
    "iqn.2001-04.x:b#10.0.0.1",
    "host",
];

const PER_PORTAL: [&str; 9] = [
    "*#*",
    "*#10.0.0.1",
    "iqn.2001-04.x:a#*",
    "iqn.2001-04.x:b#10.0.0.1",
    "iqn.2001-04.x:b#10.0.0.2",
    "!iqn.2001-04.x:ab#10.0.0.2",
    "iqn.2001-04.y:*",
    "*2",
    "!*#10.0.0.?",
];

const ALLOWED: [&str; 5] = ["10.0.0.1", "10.0.0.2", "10.0.*", "!10.0.0.2", "!*"];

#[derive(Debug)]
struct Group {
    name: &'static str,
    patterns: Vec<String>,
    luns: Vec<Lun>,
}

/// Number, device, read-only.
type Lun = (u64, usize, bool);

#[derive(Debug)]
struct Target {
    enabled: bool,
    per_portal: bool,
    allowed: Vec<&'static str>,
    users: Vec<Secret>,
    outgoing: Option<Secret>,
    luns: Vec<Lun>,
    groups: Vec<Group>,
}

#[derive(Debug)]
pub(super) struct Conf {
    enabled: bool,
    /// Read-only flag of each device.
    devices: Vec<bool>,
    users: Vec<Secret>,
    targets: Vec<Target>,
}

fn luns(dice: &mut Dice, devices: usize) -> Vec<Lun> {
    let mut luns: Vec<Lun> = Vec::new();
    for _ in 0..dice.below(4) {
        let lun = (dice.below(3) as u64, dice.below(devices), dice.one_in(3));
        if luns.iter().all(|other| other.0 != lun.0) {
            luns.push(lun);
        }
    }
    luns
}

impl Conf {
    pub(super) fn random(dice: &mut Dice) -> Self {
        let devices: Vec<bool> = (0..3).map(|_| dice.one_in(4)).collect();
        let targets = (0..1 + dice.below(3)).map(|_| {
            let per_portal = dice.one_in(4);
            let pool: &[&str] = if per_portal { &PER_PORTAL } else { &PATTERNS };
            let mut names = vec!["esx", "Lab", "10", "a_b", "z"];
            let groups = (0..dice.below(4)).map(|_| Group {
                name: names.swap_remove(dice.below(names.len())),
                patterns: dice.some(pool, 3).into_iter().map(str::to_owned).collect(),
                luns: luns(dice, 4),
            });
            let groups = groups.collect();
            Target {
                enabled: !dice.one_in(8),
                per_portal,
                allowed: if dice.one_in(4) {
                    dice.some(&ALLOWED, 2)
                } else {
                    Vec::new()
                },
                users: (0..dice.below(6).saturating_sub(3))
                    .map(|_| dice.secret())
                    .collect(),
                outgoing: dice.one_in(4).then(|| dice.secret()),
                luns: luns(dice, 4),
                groups,
            }
        });
        let targets = targets.collect();
        Self {
            enabled: !dice.one_in(12),
            devices,
            users: if dice.one_in(4) {
                vec![dice.secret(), dice.secret()]
            } else {
                Vec::new()
            },
            targets,
        }
    }
}

/// Compares as SCST does: a `!` inverts the text after it, once.
fn fits(pattern: &[u8], text: &[u8], inverted: bool) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (Some((b'!', rest)), Some(_)) if !inverted => !fits(rest, text, true),
        (None, None) => true,
        (Some((b'*', rest)), _) if fits(rest, text, inverted) => true,
        (Some((b'*', _)), Some((_, tail))) => fits(pattern, tail, inverted),
        (Some((p, rest)), Some((t, tail))) => {
            (*p == b'?' || p.eq_ignore_ascii_case(t)) && fits(rest, tail, inverted)
        }
        _ => false,
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    fits(pattern.as_bytes(), text.as_bytes(), false)
}

fn is_allowed(allowed: &[&str], address: &str) -> bool {
    let (mut any, mut found, mut spared) = (false, false, true);
    for pattern in allowed {
        let fits = matches(pattern, address);
        if pattern.starts_with('!') {
            spared &= fits;
        } else {
            any = true;
            found |= fits;
        }
    }
    (!any || found) && spared
}

impl Original for Conf {
    fn targets(&self) -> usize {
        self.targets.len()
    }

    fn text(&self) -> String {
        let mut text = String::from("HANDLER vdisk_fileio {\n");
        for (index, read_only) in self.devices.iter().enumerate() {
            let read_only = u8::from(*read_only);
            text += &format!(
                "\tDEVICE disk{index} {{\n\t\tfilename /srv/{index}\n\t\tread_only {read_only}\n\t}}\n"
            );
        }
        text += &format!(
            "}}\n\nTARGET_DRIVER iscsi {{\n\tenabled {}\n",
            u8::from(self.enabled)
        );
        let user = |(user, secret): &Secret| format!("IncomingUser \"{user} {}\"\n", secret);
        text += &self.users.iter().map(user).collect::<String>();
        for (target, iqn) in self.targets.iter().zip(TARGETS) {
            text += &format!(
                "\n\tTARGET {iqn} {{\n\tenabled {}\n",
                u8::from(target.enabled)
            );
            text += &format!("\tper_portal_acl {}\n", u8::from(target.per_portal));
            text += &target.users.iter().map(user).collect::<String>();
            if let Some((user, secret)) = target.outgoing {
                text += &format!("OutgoingUser \"{user} {}\"\n", secret);
            }
            for portal in &target.allowed {
                text += &format!("\tallowed_portal {portal}\n");
            }
            let luns = |luns: &[Lun]| -> String {
                let line = |(lun, device, read_only): &Lun| match read_only {
                    true => format!("\tLUN {lun} disk{device} {{\n\tread_only 1\n\t}}\n"),
                    false => format!("\tLUN {lun} disk{device}\n"),
                };
                luns.iter().map(line).collect()
            };
            text += &luns(&target.luns);
            for group in &target.groups {
                text += &format!("\tGROUP {} {{\n{}", group.name, luns(&group.luns));
                for pattern in &group.patterns {
                    text += &format!("\t\tINITIATOR {}\n", pattern.replace('#', "\\#"));
                }
                text += "\t}\n";
            }
            text += "\t}\n";
        }
        text + "}\n"
    }

    fn read(&self) -> Result<Imported, Error> {
        let machine = Machine {
            size_of: &|_: &Path| Some(1 << 20),
            has_address: &|_: IpAddr| true,
        };
        read(&self.text(), &machine)
    }

    fn sees(
        &self,
        initiator: &str,
        address: &str,
        target: usize,
        proof: Option<Secret>,
    ) -> Vec<Seen> {
        let Some(target) = self.targets.get(target) else {
            return Vec::new();
        };
        let is_known =
            target.users.is_empty() || proof.is_some_and(|proof| target.users.contains(&proof));
        if !self.enabled || !target.enabled || !is_known || !is_allowed(&target.allowed, address) {
            return Vec::new();
        }
        let name = match target.per_portal {
            true => format!("{initiator}#{address}"),
            false => initiator.to_owned(),
        };
        let is_member =
            |group: &&Group| group.patterns.iter().any(|pattern| matches(pattern, &name));
        // scstadmin makes groups in the order of their names.
        let mut groups: Vec<&Group> = target.groups.iter().collect();
        groups.sort_by_key(|group| group.name);
        // scstadmin gives a pattern to one of the groups that have it, and does not say which.
        // Nothing is certain then.
        let count = |pattern: &String| {
            let has = |group: &&&Group| group.patterns.contains(pattern);
            groups.iter().filter(has).count()
        };
        let patterns = groups.iter().flat_map(|group| &group.patterns);
        if patterns
            .into_iter()
            .any(|pattern| count(pattern) > 1 && matches(pattern, &name))
        {
            return Vec::new();
        }
        let group = groups.into_iter().find(is_member);
        let luns = group.map_or(&target.luns, |group| &group.luns);
        // The fourth device does not exist.
        let there = luns.iter().filter(|(_, device, _)| *device < 3);
        there
            .map(|&(lun, device, read_only)| Seen {
                lun,
                path: format!("/srv/{device}"),
                writable: !read_only && !self.devices[device],
            })
            .collect()
    }

    fn discovers(&self, proof: Option<Secret>) -> bool {
        self.users.is_empty() || proof.is_some_and(|proof| self.users.contains(&proof))
    }

    fn names(&self, initiator: &str) -> Vec<String> {
        let groups = self.targets.iter().flat_map(|target| &target.groups);
        let patterns = groups.flat_map(|group| &group.patterns);
        let called = |pattern: &&String| {
            let name = pattern.trim_start_matches('!').split('#').next().unwrap();
            // A name behind a ! in the middle is not let in either.
            matches(name, initiator) || pattern[1..].contains('!')
        };
        // Notes have wildcards in Sandstone's order, and names without their `!`.
        let called = patterns.filter(called).cloned();
        called
            .flat_map(|p| [p.trim_start_matches('!').replace("*?", "*"), p])
            .collect()
    }
}
