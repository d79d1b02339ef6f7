//! Rules of hosts: initiator names and secrets.

use std::collections::{HashMap, HashSet};

use super::{chap, object_name, taken};
use model::config::{ChapSecret, Config, HostSpec};
use model::error::Error;
use model::name;

pub(super) fn hosts(config: &Config) -> Result<(), Error> {
    let (mut names, mut initiators) = (HashSet::new(), HashMap::new());
    for secret in config
        .discovery_chap
        .iter()
        .chain(&config.discovery_mutual_chap)
    {
        chap("discovery", secret)?;
    }
    if let Some(secret) = &config.discovery_chap {
        not_reflected(config, "discovery sessions", secret)?;
    }
    for host in &config.hosts {
        object_name("host", &host.name)?;
        if !names.insert(host.name.as_str()) {
            return Err(taken("host", &host.name, "sandstone host list"));
        }
        for initiator in &host.initiators {
            initiator_pattern(host, initiator)?;
            if let Some(other) = initiators.insert(name::folded(initiator), &host.name) {
                return Err(Error::invalid(
                    format!(
                        "{initiator} would belong to the hosts {other} and {}",
                        host.name
                    ),
                    format!("remove it from {other} first: an initiator belongs to one host"),
                ));
            }
        }
        for except in &host.except {
            initiator_pattern(host, except)?;
        }
        if let Some(secret) = &host.chap {
            let name = format!("host {}", host.name);
            chap(&name, secret)?;
            not_reflected(config, &name, secret)?;
        }
    }
    Ok(())
}

/// Refuses a secret of initiators with which this side answers as well.
fn not_reflected(config: &Config, prover: &str, secret: &ChapSecret) -> Result<(), Error> {
    let is_same =
        |mutual: &Option<ChapSecret>| mutual.as_ref().is_some_and(|m| m.secret == secret.secret);
    let target = config.targets.iter().find(|t| is_same(&t.mutual_chap));
    let other = match target {
        Some(target) => format!("target {}", target.iqn),
        None if is_same(&config.discovery_mutual_chap) => "discovery".to_owned(),
        None => return Ok(()),
    };
    Err(Error::invalid(
        format!("{prover} and {other} have the same CHAP secret"),
        "choose two different secrets: with one secret for both directions, an impostor can reflect the \
         challenge (RFC 7143 9.2.1)",
    ))
}

fn initiator_pattern(host: &HostSpec, initiator: &str) -> Result<(), Error> {
    name::pattern(initiator).map_err(|fault| {
        Error::invalid(
            format!(
                "host {}: {initiator:?} is not an initiator name: {fault}",
                host.name
            ),
            "write the name as in /etc/iscsi/initiatorname.iscsi or in the client's adapter settings; * and \
             ? are wildcards",
        )
    })
}
