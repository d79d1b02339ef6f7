//! Devices of SCST as logical units.

use std::path::Path;

use super::attributes::{self, Fate};
use super::parse::Node;
use super::{Import, is_user};
use crate::import::free_name;
use model::Error;
use model::config::{BackendSpec, UnitSpec};

impl Import<'_> {
    pub(super) fn unit(&mut self, handler: &str, device: &Node) -> Result<(), Error> {
        device.has_args(1)?;
        device.has_blocks(&[])?;
        let given = device.arg(0);
        let source = format!("device {given}");
        let Some(backend) = self.backend(&source, handler, device)? else {
            return Ok(());
        };
        let config = &self.imported.config;
        let name = free_name(given, |name| config.unit(name).is_some());
        if name != given {
            self.imported
                .note(format!("{source} is now the logical unit {name}"));
        }
        let block_size = device.number("blocksize")?.unwrap_or(512);
        let block_size = u32::try_from(block_size).unwrap_or(0);
        let (write_through, nv_cache) = (device.on("write_through")?, device.on("nv_cache")?);
        let unit = UnitSpec {
            naa: self.naa(&name, device)?,
            name,
            serial: device.value("usn")?.unwrap_or_default().to_owned(),
            backend,
            block_size,
            physical_block_size: block_size.max(4096),
            // nv_cache promises that the cache survives power loss. The cache here does not, so the
            // attribute is not taken over.
            write_cache: handler == "vdisk_fileio" && !write_through && !nv_cache,
            read_only: device.on("read_only")?,
            thin: device.on("thin_provisioned")?,
            threshold_percent: None,
            // SCST has not opened a device that is not active.
            offline: device.number("active")? == Some(0),
        };
        if let Some(unknown) = self.drop_the_rest(given, device)? {
            self.imported.leave_out(source, unknown);
            return Ok(());
        }
        if unit.offline {
            self.imported.note(format!(
                "{source} is not active; `sandstone lu online {}` serves it",
                unit.name
            ));
        }
        if let Some(name) = self.imported.add_unit(&source, unit) {
            self.units.entry(given.to_owned()).or_insert(name);
        }
        Ok(())
    }

    /// Returns the backend of a device. Returns `None`, with a note, if there is no counterpart
    /// here.
    fn backend(
        &mut self,
        source: &str,
        handler: &str,
        device: &Node,
    ) -> Result<Option<BackendSpec>, Error> {
        let path = device.value("filename")?.unwrap_or_default().to_owned();
        let why = match handler {
            "vdisk_blockio" => return Ok(Some(BackendSpec::device(path))),
            "vdisk_fileio" if path.starts_with("/dev/") => {
                return Ok(Some(BackendSpec::device(path)));
            }
            "vdisk_fileio" => match (self.machine.size_of)(Path::new(&path)) {
                Some(size) => return Ok(Some(BackendSpec::file(path, size))),
                None => format!("{path:?} is not on this machine, so its size is unknown"),
            },
            other => format!("Sandstone has no backend like {other}"),
        };
        self.imported.leave_out(source, why);
        Ok(None)
    }

    /// Returns the designator of a device; empty if one is to be made.
    fn naa(&mut self, name: &str, device: &Node) -> Result<String, Error> {
        let Some(given) = device.value("naa_id")? else {
            self.imported.note(format!(
                "{name} gets a new NAA: scst.conf does not contain the NAA that SCST made; set naa to that \
                 NAA if initiators must see the same disk"
            ));
            return Ok(String::new());
        };
        let digits = given.trim_start_matches("0x").to_ascii_lowercase();
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            let node = device.all("naa_id").next().unwrap_or(device);
            let what = format!("naa_id must be a hexadecimal number, not {given:?}");
            return Err(node.refused(&what));
        }
        if digits.len() == 32 {
            return Ok(digits);
        }
        self.imported.note(format!(
            "{name} gets a new NAA: its naa_id {given} has {} digits, and Sandstone needs 32; initiators \
             will take it for a new disk",
            digits.len()
        ));
        Ok(String::new())
    }

    /// Collects the attributes that are not taken over. If SCST has no attribute of a given name,
    /// returns the reason why the device cannot exist.
    fn drop_the_rest(&mut self, given: &str, device: &Node) -> Result<Option<String>, Error> {
        for child in &device.children {
            let attribute = child.keyword.as_str();
            if attributes::DEVICE.contains(&attribute) {
                continue;
            }
            let value = device.value(attribute)?.unwrap_or_default();
            match attributes::fate(attribute, value) {
                Fate::Default => {}
                Fate::Dropped(reason) => self.dropped.add(reason, attribute, value, given),
                Fate::Unknown => return Ok(Some(unknown(child, "device"))),
            }
        }
        Ok(None)
    }

    /// Names the attributes that are not taken over, if they have a value.
    pub(super) fn name_the_rest(&mut self, what: &str, node: &Node, known: &[&str]) {
        let others = node.children.iter().filter(|child| {
            let is_empty = matches!(child.arg(0), "" | "<NULL>");
            !known.contains(&child.keyword.as_str()) && !is_empty && !is_user(child)
        });
        let others: Vec<_> = others
            .map(|child| format!("{} {}", child.keyword, child.args.join(" ")))
            .collect();
        if !others.is_empty() {
            self.imported
                .note(format!("{what} was imported without {}", others.join(", ")));
        }
    }
}

/// Returns the reason why an object with an unknown attribute is left out. The attribute's value
/// may be a secret.
pub(super) fn unknown(attribute: &Node, owner: &str) -> String {
    format!(
        "line {}: {} is not a known attribute of a {owner}, and may restrict access; correct or remove the \
         line",
        attribute.line, attribute.keyword
    )
}
