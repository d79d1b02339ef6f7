//! Rules for configurations, each with an error that says what to do about it.
//!
//! The data plane can apply a validated configuration without further questions about names,
//! numbers or views. Problems that only the machine can show (a file that does not exist, an
//! address that cannot be bound) are found when the configuration is applied.

use std::net::SocketAddr;

use model::config::{ChapSecret, Config};
use model::error::Error;
use model::name;

mod host;
mod initiator;
mod lu;
mod map;
mod target;
mod target_group;
mod way;

pub(super) use map::{describe, meet};

/// Highest LUN (SAM-5 4.7.7.2, flat space addressing).
pub const MAX_LUN: u16 = 16383;

/// Marker in place of a secret that is not shown. In a file to apply it means "keep the present
/// secret".
pub const SECRET_NOT_SHOWN: &str = "<unchanged>";

/// Checks every rule, and reports the first one that is broken.
pub fn validate(config: &Config) -> Result<(), Error> {
    installation(&config.identity.installation)?;
    lu::units(config)?;
    target::targets(config)?;
    target::portals(config)?;
    target_group::target_groups(config)?;
    host::hosts(config)?;
    map::maps(config)?;
    initiator::initiator(config)?;
    way::ways(config)?;
    isns_servers(&config.isns_servers)
}

fn installation(installation: &str) -> Result<(), Error> {
    let hex = installation
        .bytes()
        .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if hex && matches!(installation.len(), 0 | 9) {
        return Ok(());
    }
    Err(Error::invalid(
        format!("identity.installation {installation:?} is not 9 hexadecimal digits"),
        "omit installation: the daemon keeps its own value",
    ))
}

/// Most iSNS servers: more than a site has, and few enough that a thread for each costs nothing.
const MAX_ISNS_SERVERS: usize = 8;

fn isns_servers(servers: &[SocketAddr]) -> Result<(), Error> {
    if servers.len() > MAX_ISNS_SERVERS {
        return Err(Error::invalid(
            format!(
                "isns_servers has {} addresses; at most {MAX_ISNS_SERVERS} are allowed",
                servers.len()
            ),
            "name only the servers of this site; iSNS servers inform each other",
        ));
    }
    for (index, server) in servers.iter().enumerate() {
        if server.port() == 0 || server.ip().is_unspecified() || server.ip().is_multicast() {
            return Err(Error::invalid(
                format!("isns_servers: {server} is not the address of one server"),
                "write the server's address and port, such as 192.0.2.1:3205",
            ));
        }
        if servers[..index].contains(server) {
            return Err(Error::invalid(
                format!("isns_servers names {server} twice"),
                "name each server once",
            ));
        }
    }
    Ok(())
}

fn chap(who: &str, secret: &ChapSecret) -> Result<(), Error> {
    if secret.user.is_empty()
        || secret.user.len() > 255
        || secret.user.chars().any(char::is_control)
    {
        return Err(Error::invalid(
            format!(
                "{who}: the CHAP user name is empty, longer than 255 bytes or holds control characters"
            ),
            "choose a printable name; many clients use the initiator's iSCSI name",
        ));
    }
    if secret.secret == SECRET_NOT_SHOWN {
        return Err(Error::invalid(
            format!(
                "{who}: {SECRET_NOT_SHOWN} stands in place of the secret, and there is no present secret to \
                 keep"
            ),
            "write the secret itself, or set it with `sandstone host auth` or `sandstone target auth`",
        ));
    }
    if !(12..=255).contains(&secret.secret.len()) {
        return Err(Error::invalid(
            format!("{who}: the CHAP secret has {} bytes", secret.secret.len()),
            "use 12 to 255 bytes; Windows takes 12 to 16, so 16 suits every client",
        ));
    }
    Ok(())
}

fn object_name(kind: &str, name: &str) -> Result<(), Error> {
    let start = name
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric());
    let rest = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'));
    if start && rest && name.len() <= 128 {
        return Ok(());
    }
    Err(Error::invalid(
        format!("{name:?} is not a valid {kind} name"),
        "use at most 128 letters, digits, '-', '_', '.' and ':', with a letter or digit first",
    ))
}

/// Checks a name that another system may have chosen: of an imported target, of a target to log in
/// to, or of this system as others know it.
fn iscsi_name(kind: &str, given: &str) -> Result<(), Error> {
    name::foreign(given).map_err(|fault| {
        Error::invalid(
            format!("{given:?} is not a valid {kind} name: {fault}"),
            format!(
                "use a name such as {}:disk1",
                super::identity::TARGET_PREFIX
            ),
        )
    })
}

fn taken(kind: &str, name: &str, list: &str) -> Error {
    Error::exists(
        format!("{kind} {name} exists already"),
        format!("choose another name; `{list}` shows the names in use"),
    )
}

#[cfg(test)]
pub mod tests;
