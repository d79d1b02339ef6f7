//! SCST's scst.conf, as scstadmin writes it.
//!
//! SCST's `usn` and `naa_id` are taken over if the file contains them. The file states no sizes of
//! files: the size is that of the file on this machine.
//!
//! # Access rules of SCST
//! An initiator belongs to the first group of a target that has a pattern for its name. The first
//! group is the one whose name sorts first: scstadmin makes groups in this order, wherever they
//! stand in the file. If two groups have one pattern, scstadmin gives it to either of them, and
//! does not say which. The initiator sees only the LUNs of its group, and nothing if the group has
//! none. An initiator in no group sees the LUNs that stand in the target itself. Each IncomingUser
//! of a target is proof enough for it; a target without one requires no proof.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use super::access::{Source, carry};
use super::dropped::Dropped;
use super::{Imported, parameters};
use model::Error;
use model::config::{ChapSecret, PortalGroupSpec, TargetSpec};
use model::name;

mod attributes;
mod device;
mod parse;
mod portal;
mod rules;

use parse::{Node, parse};
use rules::unknown_in;

/// Port of iSCSI. SCST has one port for the whole daemon, and scst.conf does not name it.
const PORT: u16 = 3260;

/// Knowledge that this machine has of the files and addresses that the file names.
pub struct Machine<'a> {
    /// Function that returns the size of a file or device in bytes, or `None` if it does not exist.
    pub size_of: &'a dyn Fn(&Path) -> Option<u64>,
    /// Function that reports whether an address belongs to this machine.
    pub has_address: &'a dyn Fn(IpAddr) -> bool,
}

/// Reads a scst.conf.
///
/// # Errors
/// A line is not understood, or discovery requires a proof that Sandstone cannot require.
pub fn read(text: &str, machine: &Machine<'_>) -> Result<Imported, Error> {
    let root = parse(text)?;
    root.has_blocks(&["HANDLER", "TARGET_DRIVER", "DEVICE_GROUP", "ALUA"])?;
    let is_one = |kind| root.all(kind).next().is_some();
    if !is_one("HANDLER") && !is_one("TARGET_DRIVER") {
        let line = root.children.first().map_or(1, |node| node.line);
        return Err(Error::invalid(
            format!(
                "line {line}: this is not an scst.conf: it has neither a HANDLER nor a TARGET_DRIVER"
            ),
            "give the file that `scstadmin -write_config` writes, or the saveconfig.json of LIO; other files \
             cannot be imported",
        ));
    }
    let mut import = Import {
        imported: Imported::default(),
        dropped: Dropped::default(),
        machine,
        units: BTreeMap::new(),
        targets: Vec::new(),
    };
    for handler in root.all("HANDLER") {
        handler.has_args(1)?;
        handler.has_blocks(&["DEVICE"])?;
        import.name_the_rest(&format!("handler {}", handler.arg(0)), handler, &["DEVICE"]);
        for device in handler.all("DEVICE") {
            import.imported.devices += 1;
            import.unit(handler.arg(0), device)?;
        }
    }
    for driver in root.all("TARGET_DRIVER") {
        import.driver(driver)?;
    }
    for group in root.all("DEVICE_GROUP").chain(root.all("ALUA")) {
        let why = "set ALUA states with `sandstone target portal add`";
        let what = match group.keyword.as_str() {
            "ALUA" => "the ALUA block".to_owned(),
            _ => format!("device group {}", group.arg(0)),
        };
        import.imported.leave_out(what, why);
    }
    import.name_the_rest(
        "SCST",
        &root,
        &["HANDLER", "TARGET_DRIVER", "DEVICE_GROUP", "ALUA"],
    );
    std::mem::take(&mut import.dropped).tell(&mut import.imported);
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
    dropped: Dropped,
    machine: &'a Machine<'a>,
    /// Units by the names of SCST's devices.
    units: BTreeMap<String, String>,
    targets: Vec<(TargetSpec, Source)>,
}

impl Import<'_> {
    fn driver(&mut self, driver: &Node) -> Result<(), Error> {
        driver.has_args(1)?;
        if driver.arg(0) != "iscsi" {
            let what = format!("the driver {}", driver.arg(0));
            self.imported.leave_out(what, "Sandstone serves only iSCSI");
            return Ok(());
        }
        driver.has_blocks(&["TARGET"])?;
        self.imported.targets += driver.all("TARGET").count();
        self.discovery(driver)?;
        for child in driver.children.iter().filter(|child| !is_user(child)) {
            let attribute = child.keyword.as_str();
            if !attributes::DRIVER.contains(&attribute)
                && !attributes::DRIVER_WITHOUT.contains(&attribute)
            {
                return Err(child.refused(&format!(
                    "{attribute} is not a known attribute of the driver"
                )));
            }
        }
        self.name_the_rest("the driver", driver, attributes::DRIVER);
        if driver.value("iSNSServer")?.is_some_and(|s| !s.is_empty()) {
            self.imported.leave_out(
                "the iSNS server",
                "set isns_servers with `sandstone config apply`",
            );
        }
        // The attribute tells which addresses discovery lists. Here discovery lists the configured
        // ones.
        driver.on("link_local")?;
        let off = driver.number("enabled")?.is_some() && !driver.on("enabled")?;
        for target in driver.all("TARGET") {
            self.target(target, off)?;
        }
        Ok(())
    }

    /// Translates discovery. Users in the driver itself are for discovery sessions.
    fn discovery(&mut self, driver: &Node) -> Result<(), Error> {
        let all = secrets(driver, "IncomingUser")?;
        let usable: Vec<_> = all
            .iter()
            .filter(|s| super::unusable(s).is_none())
            .collect();
        if let (Some(first), None) = (all.first(), usable.first()) {
            return Err(Error::invalid(
                format!(
                    "discovery requires a CHAP login that Sandstone cannot require: user {:?}: {}",
                    first.user,
                    super::unusable(first).unwrap_or_default()
                ),
                "give the IncomingUser of the TARGET_DRIVER a secret of 12 bytes or more in the file, or remove it; then import it again",
            ));
        }
        if usable.len() > 1 {
            self.imported.note(format!(
                "discovery has several users; initiators discover as {}, and no longer as the others",
                usable[0].user
            ));
        }
        let outgoing = secrets(driver, "OutgoingUser")?.into_iter().next();
        self.imported.config.discovery_chap = usable.first().map(|secret| (*secret).clone());
        self.imported.config.discovery_mutual_chap =
            super::mutual(&mut self.imported, "discovery", outgoing);
        Ok(())
    }

    fn target(&mut self, target: &Node, off: bool) -> Result<(), Error> {
        target.has_args(1)?;
        target.has_blocks(&["LUN", "GROUP"])?;
        let source = format!("target {}", target.arg(0));
        let iqn = target.arg(0).to_owned();
        if let Err(fault) = name::foreign(&iqn) {
            self.imported.leave_out(source, fault);
            return Ok(());
        }
        let known = |(target, _): &(TargetSpec, Source)| name::is_same(&target.iqn, &iqn);
        if self.targets.iter().any(known) {
            let why = "another target has this name, or a name that differs only in capitals";
            self.imported.leave_out(source, why);
            return Ok(());
        }
        if let Some(unknown) = unknown_in(target) {
            self.imported.leave_out(source, unknown);
            return Ok(());
        }
        let Some(addresses) = portal::addresses(target)? else {
            let lines = target.all("allowed_portal").map(|node| node.arg(0));
            let lines: Vec<&str> = lines.collect();
            let why = format!(
                "none of its allowed_portal lines ({}) names a single address",
                lines.join(", ")
            );
            self.imported.leave_out(source, why);
            return Ok(());
        };
        let Some((addresses, rules)) = self.at_one_rule(&iqn, target, addresses)? else {
            return Ok(());
        };
        let spec = self.spec(&iqn, target, addresses, off)?;
        self.targets.push((spec, Source { iqn, rules }));
        Ok(())
    }

    fn spec(
        &mut self,
        iqn: &str,
        target: &Node,
        addresses: Vec<IpAddr>,
        off: bool,
    ) -> Result<TargetSpec, Error> {
        let portals = addresses.iter().map(|ip| SocketAddr::new(*ip, PORT));
        let relative_port_id = target.number("rel_tgt_id")?.unwrap_or(0);
        let relative_port_id = u16::try_from(relative_port_id)
            .map_err(|_| target.refused("the rel_tgt_id of this target is above 65535"))?;
        let targets = self.targets.iter();
        let mut groups = targets.flat_map(|(target, _)| &target.portal_groups);
        let taken = groups.any(|group| group.relative_port_id == relative_port_id);
        let redirects = target
            .value("redirect")?
            .is_some_and(|to| !to.is_empty() && to != "<NULL>");
        if redirects {
            let why = "the target is offline until you set the redirection with `sandstone target redirect`";
            self.imported
                .leave_out(format!("the redirection of {iqn}"), why);
        }
        let offline = off || redirects || !target.on("enabled")?;
        if offline {
            self.imported.note(format!(
                "target {iqn} is offline; `sandstone target online {}` serves it",
                name::shown(iqn)
            ));
        }
        let outgoing = secrets(target, "OutgoingUser")?;
        if outgoing.len() > 1 {
            self.imported.note(format!(
                "{iqn} authenticates as several users; it now uses only the first"
            ));
        }
        Ok(TargetSpec {
            iqn: iqn.to_owned(),
            alias: target.value("alias")?.unwrap_or_default().to_owned(),
            portal_groups: vec![PortalGroupSpec {
                tag: 1,
                relative_port_id: if taken { 0 } else { relative_port_id },
                target_port_group: 1,
                portals: portals.collect(),
                alua_state: Default::default(),
            }],
            alua: Default::default(),
            redirect: None,
            mutual_chap: super::mutual(&mut self.imported, iqn, outgoing.into_iter().next()),
            parameters: self.parameters(iqn, target)?,
            offline,
        })
    }

    fn parameters(
        &mut self,
        iqn: &str,
        target: &Node,
    ) -> Result<model::config::TargetParameters, Error> {
        let mut others = Vec::new();
        for child in &target.children {
            let key = child.keyword.as_str();
            if !is_user(child) && !attributes::TARGET.contains(&key) {
                others.push((key, target.value(key)?.unwrap_or_default()));
            }
        }
        Ok(parameters::taken_over(
            &mut self.imported,
            iqn,
            others.into_iter(),
        ))
    }

    /// Resolves conflicts of ports. If some target is bound to an address, targets that listen
    /// everywhere listen at all named addresses instead. A port is taken either on single
    /// addresses, or on all of them.
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

/// Reports whether a line is a user, or is meant as one.
fn is_user(node: &Node) -> bool {
    let keyword = node.keyword.as_str();
    keyword.starts_with("IncomingUser") || keyword.starts_with("OutgoingUser")
}

/// Reads `IncomingUser "user secret"`. The second and later ones may have a number.
fn secrets(owner: &Node, keyword: &str) -> Result<Vec<ChapSecret>, Error> {
    let mut secrets = Vec::new();
    for node in &owner.children {
        let Some(number) = node.keyword.strip_prefix(keyword) else {
            continue;
        };
        let text = node.args.join(" ");
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_numbered = number.bytes().all(|b| b.is_ascii_digit());
        let (true, &[user, secret]) = (is_numbered, words.as_slice()) else {
            return Err(node.refused(&format!(
                "{keyword} must be followed by a user and a secret"
            )));
        };
        secrets.push(ChapSecret {
            user: user.to_owned(),
            secret: secret.to_owned(),
        });
    }
    Ok(secrets)
}

#[cfg(test)]
mod mutations;
#[cfg(test)]
mod tests;
