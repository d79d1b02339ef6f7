//! SCST's scst.conf, as scstadmin writes it.
//!
//! SCST's `usn` and `naa_id` are taken over where the file names them. Files have no size there:
//! the size is that of the file on this machine.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use super::{Imported, free_name};
use crate::config::Error;
use crate::config::model::{
    BackendSpec, ChapSecret, Config, HostSpec, MapSpec, PortalGroupSpec, TargetSpec, UnitSpec,
};
use crate::config::name;

/// `KEYWORD arg arg { children }`
#[derive(Debug, Default)]
struct Node {
    keyword: String,
    args: Vec<String>,
    children: Vec<Node>,
}

impl Node {
    fn all<'a>(&'a self, keyword: &'a str) -> impl Iterator<Item = &'a Node> {
        self.children
            .iter()
            .filter(move |node| node.keyword == keyword)
    }

    fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// The value of an attribute line.
    fn value(&self, keyword: &str) -> Option<&str> {
        self.children
            .iter()
            .find(|node| node.keyword == keyword)
            .map(|node| node.arg(0))
    }

    fn on(&self, keyword: &str) -> bool {
        self.value(keyword) == Some("1")
    }
}

/// Reads a scst.conf. `size_of` tells the size of a file or device in bytes, `None` where there is
/// none.
pub fn read(text: &str, size_of: &dyn Fn(&Path) -> Option<u64>) -> Result<Imported, Error> {
    let root = parse(text)?;
    let mut import = Import {
        imported: Imported {
            config: Config::default(),
            notes: Vec::new(),
        },
        size_of,
    };
    for handler in root.all("HANDLER") {
        for device in handler.all("DEVICE") {
            import.unit(handler.arg(0), device);
        }
    }
    for driver in root.all("TARGET_DRIVER") {
        if driver.arg(0) != "iscsi" {
            import.note(format!(
                "targets of the driver {} were left out: only iSCSI is served",
                driver.arg(0)
            ));
            continue;
        }
        for target in driver.all("TARGET") {
            import.target(target);
        }
    }
    for group in root.all("DEVICE_GROUP") {
        import.note(format!(
            "device group {} was left out: set ALUA states with `sandstone target portal add`",
            group.arg(0)
        ));
    }
    Ok(import.imported)
}

struct Import<'a> {
    imported: Imported,
    size_of: &'a dyn Fn(&Path) -> Option<u64>,
}

impl Import<'_> {
    fn note(&mut self, note: impl Into<String>) {
        self.imported.notes.push(note.into());
    }

    fn unit(&mut self, handler: &str, device: &Node) {
        let given = device.arg(0);
        let path = device.value("filename").unwrap_or_default().to_owned();
        let backend = match handler {
            "vdisk_blockio" => BackendSpec::Device { path: path.into() },
            "vdisk_fileio" if path.starts_with("/dev/") => BackendSpec::Device { path: path.into() },
            "vdisk_fileio" => match (self.size_of)(Path::new(&path)) {
                Some(size) => BackendSpec::File { path: path.into(), size, preallocate: false },
                None => return self.note(format!("device {given} was left out: {path:?} is not on this machine, so its size is unknown")),
            },
            other => return self.note(format!("device {given} was left out: there is no backend like {other}")),
        };
        let config = &self.imported.config;
        let name = free_name(given, |name| config.unit(name).is_some());
        let block_size = device
            .value("blocksize")
            .and_then(|v| v.parse().ok())
            .unwrap_or(512);
        let naa = device
            .value("naa_id")
            .map(|v| v.trim_start_matches("0x").to_ascii_lowercase())
            .filter(|v| v.len() == 32);
        if naa.is_none() {
            self.note(format!(
                "{name} gets a new NAA: scst.conf does not name the one SCST made; give it as naa if initiators must see the same disk"
            ));
        }
        self.imported.config.units.push(UnitSpec {
            name,
            naa: naa.unwrap_or_default(),
            serial: device.value("usn").unwrap_or_default().to_owned(),
            backend,
            block_size,
            physical_block_size: block_size.max(4096),
            // nv_cache promises that the cache survives power loss; ours does not, so it is not taken over.
            write_cache: handler == "vdisk_fileio"
                && !device.on("write_through")
                && !device.on("nv_cache"),
            read_only: device.on("read_only"),
            thin: device.on("thin_provisioned"),
            threshold_percent: None,
            offline: false,
        });
    }

    fn target(&mut self, target: &Node) {
        let iqn = match name::normalise(target.arg(0)) {
            Ok(iqn) => iqn,
            Err(error) => {
                return self.note(format!("target {} was left out: {error}", target.arg(0)));
            }
        };
        let mut portals = Vec::new();
        for portal in target.all("allowed_portal") {
            match portal.arg(0).parse::<IpAddr>() {
                Ok(ip) => portals.push(SocketAddr::new(ip, 3260)),
                Err(_) => self.note(format!(
                    "portal {:?} of {iqn} was left out: patterns are not known here",
                    portal.arg(0)
                )),
            }
        }
        if portals.is_empty() {
            portals.push(SocketAddr::from(([0, 0, 0, 0], 3260)));
        }
        let incoming = secrets(target, "IncomingUser");
        if incoming.len() > 1 {
            self.note(format!(
                "{iqn} knows several incoming users; hosts were given the first"
            ));
        }
        self.maps(&iqn, target, None, None);
        for group in target.all("GROUP") {
            for host in self.hosts(group, incoming.first()) {
                self.maps(&iqn, group, Some(&host), Some(group.arg(0)));
            }
        }
        self.imported.config.targets.push(TargetSpec {
            iqn,
            alias: target.value("alias").unwrap_or_default().to_owned(),
            portal_groups: vec![PortalGroupSpec {
                tag: 1,
                relative_port_id: target
                    .value("rel_tgt_id")
                    .and_then(|v| v.parse().ok())
                    .unwrap_or(0),
                target_port_group: 1,
                portals,
                alua_state: Default::default(),
            }],
            alua: Default::default(),
            redirect: None,
            mutual_chap: secrets(target, "OutgoingUser").into_iter().next(),
            parameters: Default::default(),
            offline: !target.on("enabled"),
        });
    }

    /// One host per initiator: SCST's groups belong to a target, ours to the whole daemon, and an
    /// initiator may be in groups of several targets.
    fn hosts(&mut self, group: &Node, chap: Option<&ChapSecret>) -> Vec<String> {
        let mut names = Vec::new();
        for initiator in group.all("INITIATOR") {
            let given = initiator.arg(0);
            let pattern = match name::normalise_pattern(given) {
                Ok(pattern) => pattern,
                Err(error) => {
                    self.note(format!(
                        "initiator {given} of group {} was left out: {error}",
                        group.arg(0)
                    ));
                    continue;
                }
            };
            let config = &mut self.imported.config;
            if let Some(known) = config
                .hosts
                .iter()
                .find(|host| host.initiators.contains(&pattern))
            {
                names.push(known.name.clone());
                continue;
            }
            let own = pattern
                .rsplit(':')
                .find(|part| part.chars().any(|c| c.is_ascii_alphanumeric()));
            let own = own
                .filter(|own| !own.contains(['*', '?']))
                .unwrap_or(group.arg(0));
            let name = free_name(own, |name| config.host(name).is_some());
            config.hosts.push(HostSpec {
                name: name.clone(),
                initiators: vec![pattern],
                chap: chap.cloned(),
            });
            names.push(name);
        }
        names
    }

    fn maps(&mut self, iqn: &str, owner: &Node, host: Option<&str>, group: Option<&str>) {
        for lun in owner.all("LUN") {
            let (number, device) = (lun.arg(0), super::plain_name(lun.arg(1)));
            let known = self.imported.config.unit(&device).is_some();
            match number.parse::<u16>() {
                Ok(number) if known => self.imported.config.maps.push(MapSpec {
                    unit: device,
                    host: host.map(str::to_owned),
                    target: Some(iqn.to_owned()),
                    lun: number,
                    read_only: lun.on("read_only"),
                }),
                _ => {
                    let of =
                        group.map_or(iqn.to_owned(), |group| format!("group {group} of {iqn}"));
                    self.note(format!("LUN {number} ({device}) of {of} was left out: the device was not taken over"));
                }
            }
        }
    }
}

/// `IncomingUser "user secret"`
fn secrets(target: &Node, keyword: &str) -> Vec<ChapSecret> {
    let words = |node: &Node| {
        node.args
            .join(" ")
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let pair = |words: Vec<String>| match words.as_slice() {
        [user, secret, ..] => Some(ChapSecret {
            user: user.clone(),
            secret: secret.clone(),
        }),
        _ => None,
    };
    target.all(keyword).map(words).filter_map(pair).collect()
}

/// Reads the lines into a tree. A brace opens a block at the end of a line and closes it on a line
/// of its own, as scstadmin writes and accepts it.
fn parse(text: &str) -> Result<Node, Error> {
    let mut open = vec![Node::default()];
    for (index, line) in text.lines().enumerate() {
        let wrong = |what: &str| {
            Error::invalid(
                format!("line {} of the scst.conf: {what}", index + 1),
                "give the file that `scstadmin -write_config` writes, usually /etc/scst.conf",
            )
        };
        let words = words(line).ok_or_else(|| wrong("a quote is not closed"))?;
        let mut words = words.as_slice();
        if words.first().is_some_and(|word| word == "}") {
            let done = open
                .pop()
                .filter(|_| !open.is_empty())
                .ok_or_else(|| wrong("a } too many"))?;
            if let Some(parent) = open.last_mut() {
                parent.children.push(done);
            }
            words = &words[1..];
        }
        let Some((keyword, rest)) = words.split_first() else {
            continue;
        };
        let opens = rest.last().is_some_and(|word| word == "{");
        let args = if opens { &rest[..rest.len() - 1] } else { rest };
        let node = Node {
            keyword: keyword.clone(),
            args: args.to_vec(),
            children: Vec::new(),
        };
        if opens {
            open.push(node);
        } else if let Some(parent) = open.last_mut() {
            parent.children.push(node);
        }
    }
    match (open.pop(), open.is_empty()) {
        (Some(root), true) if !root.children.is_empty() => Ok(root),
        (_, true) => Err(Error::invalid(
            "the scst.conf holds nothing",
            "check the path",
        )),
        _ => Err(Error::invalid(
            "the scst.conf ends inside a block: a } is missing",
            "check that the file is whole",
        )),
    }
}

/// The words of a line, without its comment; `None` where a quote is not closed.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quoted, mut any) = (Vec::new(), String::new(), false, false);
    for c in line.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                any = true;
            }
            '#' if !quoted && word.is_empty() => break,
            c if c.is_whitespace() && !quoted => {
                if any || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            c => word.push(c),
        }
    }
    if any || !word.is_empty() {
        words.push(word);
    }
    (!quoted).then_some(words)
}

#[cfg(test)]
mod tests;
