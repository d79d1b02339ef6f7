//! Devices of SCST as logical units.

use std::path::Path;

use super::Import;
use super::parse::Node;
use crate::config::import::free_name;
use crate::config::model::{BackendSpec, UnitSpec};

/// Attributes of devices that are read here, or that mean nothing for what initiators meet.
const DEVICE_ATTRIBUTES: [&str; 18] = [
    "filename",
    "blocksize",
    "usn",
    "naa_id",
    "read_only",
    "thin_provisioned",
    "write_through",
    "nv_cache",
    "threads_num",
    "threads_pool_type",
    "o_direct",
    "zero_copy",
    "async",
    "t10_dev_id",
    "t10_vend_id",
    "vend_specific_id",
    "prod_id",
    "prod_rev_lvl",
];

impl Import<'_> {
    pub(super) fn unit(&mut self, handler: &str, device: &Node) {
        let given = device.arg(0);
        let source = format!("device {given}");
        let path = device.value("filename").unwrap_or_default().to_owned();
        let backend = match handler {
            "vdisk_blockio" => BackendSpec::Device { path: path.into() },
            "vdisk_fileio" if path.starts_with("/dev/") => {
                BackendSpec::Device { path: path.into() }
            }
            "vdisk_fileio" => match (self.machine.size_of)(Path::new(&path)) {
                Some(size) => BackendSpec::File {
                    path: path.into(),
                    size,
                    preallocate: false,
                },
                None => {
                    let why = format!("{path:?} is not on this machine, so its size is unknown");
                    return self.imported.leave_out(source, why);
                }
            },
            other => {
                let why = format!("there is no backend like {other}");
                return self.imported.leave_out(source, why);
            }
        };
        let config = &self.imported.config;
        let name = free_name(given, |name| config.unit(name).is_some());
        if name != given {
            self.imported
                .note(format!("{source} is now the logical unit {name}"));
        }
        let block_size = device
            .value("blocksize")
            .map_or(Ok(512), str::parse)
            .unwrap_or(0);
        let naa = device
            .value("naa_id")
            .map(|v| v.trim_start_matches("0x").to_ascii_lowercase())
            .filter(|v| v.len() == 32);
        if naa.is_none() {
            self.imported.note(format!(
                "{name} gets a new NAA: scst.conf does not name the one SCST made; give it as naa if initiators must see the same disk"
            ));
        }
        self.name_the_rest(&source, device, &DEVICE_ATTRIBUTES);
        let unit = UnitSpec {
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
        };
        if let Some(name) = self.imported.add_unit(&source, unit) {
            self.units.entry(given.to_owned()).or_insert(name);
        }
    }

    /// Names the attributes that are not taken over, where they are not what SCST has without them.
    pub(super) fn name_the_rest(&mut self, what: &str, node: &Node, known: &[&str]) {
        let others = node.children.iter().filter(|child| {
            let is_default = matches!(child.arg(0), "0" | "" | "<NULL>");
            !known.contains(&child.keyword.as_str()) && !is_default
        });
        let others: Vec<_> = others
            .map(|child| format!("{} {}", child.keyword, child.args.join(" ")))
            .collect();
        if !others.is_empty() {
            self.imported
                .note(format!("{what} goes without {}", others.join(", ")));
        }
    }
}
