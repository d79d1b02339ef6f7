//! The attributes of SCST, and the fate of a device's attributes.
//!
//! SCST refuses an unknown attribute. An object with an unknown attribute is left out here: a
//! misspelt `read_only` or `IncomingUser` must not open it.

use crate::import::dropped::Reason;

/// Attributes of targets that are read here, or that do not concern iSCSI.
pub(super) const TARGET: &[&str] = &[
    "LUN",
    "GROUP",
    "enabled",
    "rel_tgt_id",
    "alias",
    "allowed_portal",
    "per_portal_acl",
    "redirect",
    "hw_target",
    "black_hole",
];

/// Attributes of targets that have no counterpart.
pub(super) const TARGET_WITHOUT: &[&str] = &[
    "addr_method",
    "aen_disabled",
    "comment",
    "cpu_mask",
    "dif_capabilities",
    "forward_dst",
    "forward_src",
    "forwarding",
    "internal_portal",
    "io_grouping_type",
    "tid",
];

/// Attributes of groups that are read here.
pub(super) const GROUP: &[&str] = &["LUN", "INITIATOR", "black_hole"];

/// Attributes of groups that have no counterpart.
pub(super) const GROUP_WITHOUT: &[&str] = &["addr_method", "cpu_mask", "io_grouping_type"];

/// Attributes of the driver iscsi.
pub(super) const DRIVER: &[&str] = &["TARGET", "enabled", "link_local", "iSNSServer"];

/// Attributes of the driver iscsi that have no counterpart.
pub(super) const DRIVER_WITHOUT: &[&str] = &[
    "iSNSAccessControl",
    "internal_portal",
    "isns_entity_name",
    "trace_level",
];

/// Attributes of devices that are taken over.
pub(super) const DEVICE: &[&str] = &[
    "active",
    "blocksize",
    "filename",
    "naa_id",
    "read_only",
    "thin_provisioned",
    "usn",
    "write_through",
];

/// All other attributes of devices, each with the value that SCST assumes without the line.
const DEVICE_WITHOUT: &[(Reason, &[(&str, &str)])] = &[
    (
        Reason::Identity,
        &[
            ("eui64_id", ""),
            ("inq_vend_specific", ""),
            ("prod_id", ""),
            ("prod_rev_lvl", ""),
            ("scsi_device_name", ""),
            ("t10_dev_id", ""),
            ("t10_vend_id", ""),
            ("vend_specific_id", ""),
        ],
    ),
    (
        Reason::Device,
        &[
            ("lb_per_pb_exp", "1"),
            ("opt_trans_len", "0"),
            ("removable", "0"),
            ("rotational", "1"),
        ],
    ),
    (Reason::Cache, &[("nv_cache", "0")]),
    (
        Reason::Inner,
        &[
            ("async", "0"),
            ("force_global_sgv_pool", "0"),
            ("max_tgt_dev_commands", ""),
            ("measure_latency", "0"),
            ("numa_node_id", ""),
            ("o_direct", "0"),
            ("poll_us", "0"),
            ("threads_num", ""),
            ("threads_pool_type", ""),
            ("trace_level", ""),
            ("zero_copy", "0"),
        ],
    ),
    (
        Reason::Absent,
        &[
            ("bind_alua_state", "1"),
            ("cluster_mode", "0"),
            ("dif_filename", ""),
            ("dif_mode", "0"),
            ("dif_static_app_tag", "0"),
            ("dif_type", "0"),
            ("dummy", "0"),
            ("expl_alua", "0"),
            ("gen_tp_soft_threshold_reached_UA", "0"),
            ("pr_file_name", ""),
            ("read_zero", "0"),
            ("size", "0"),
            ("size_mb", "0"),
            ("tst", "1"),
        ],
    ),
];

/// Fate of a device's attribute that is not taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The attribute has its default value.
    Default,
    Dropped(Reason),
    /// SCST has no attribute of this name.
    Unknown,
}

pub(super) fn fate(attribute: &str, value: &str) -> Fate {
    for (reason, attributes) in DEVICE_WITHOUT {
        if let Some((_, default)) = attributes.iter().find(|(name, _)| *name == attribute) {
            return match value {
                "" | "<NULL>" => Fate::Default,
                value if value == *default => Fate::Default,
                _ => Fate::Dropped(*reason),
            };
        }
    }
    Fate::Unknown
}
