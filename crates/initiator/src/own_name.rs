//! The name of this machine's initiator.

use model::initiator::InitiatorSpec;
use model::name;

/// File in which open-iscsi keeps the name of this machine's initiator.
const NAME_FILE: &str = "/etc/iscsi/initiatorname.iscsi";

/// Returns the name in force.
pub(super) fn in_force(spec: &InitiatorSpec) -> String {
    match spec.name.as_str() {
        "" => initiator_name(),
        name => name.to_owned(),
    }
}

/// Returns this machine's initiator name. If open-iscsi is installed, its name is used, so that the
/// target's permissions hold for both. Otherwise the name is made from the host's name.
pub fn initiator_name() -> String {
    let file = std::fs::read_to_string(NAME_FILE).unwrap_or_default();
    let names = file
        .lines()
        .filter_map(|line| line.trim().strip_prefix("InitiatorName="));
    if let Some(name) = names
        .map(str::trim)
        .find(|name| name::foreign(name).is_ok())
    {
        return name.to_owned();
    }
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy().to_ascii_lowercase();
    let fit = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' || c == '.' {
            c
        } else {
            '-'
        }
    };
    format!(
        "iqn.2026-01.io.sandstone:{}",
        host.chars().map(fit).collect::<String>()
    )
}
