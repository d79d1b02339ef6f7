//! Configurations without their secrets, and the return of secrets that were left untouched.
//!
//! `config show` prints a file that can be edited and applied again. In place of a secret it says
//! [`SECRET_NOT_SHOWN`], which means "keep the present secret". The marker is too short to be a
//! secret, so the two cannot be confused.

use super::validate::SECRET_NOT_SHOWN;
use model::config::{ChapSecret, Config, HostSpec, TargetSpec};
use model::initiator::LoginSpec;
use model::way::WaySpec;

/// Applies `act` to each secret of a configuration. A secret that is added to the configuration is
/// added here, and is then sealed in the file and hidden in every listing.
pub(crate) fn for_each_secret(config: &mut Config, act: &mut dyn FnMut(&mut String)) {
    let hosts = config.hosts.iter_mut().map(|host| &mut host.chap);
    let targets = config.targets.iter_mut();
    let targets = targets.map(|target| &mut target.mutual_chap);
    let logins = config.initiator.targets.iter_mut();
    let logins = logins.flat_map(|login| [&mut login.chap, &mut login.mutual_chap]);
    let discovery = [
        &mut config.discovery_chap,
        &mut config.discovery_mutual_chap,
    ];
    let all = hosts.chain(targets).chain(logins).chain(discovery);
    for chap in all.flatten() {
        act(&mut chap.secret);
    }
    for way in &mut config.alert_ways {
        way.each_secret(|_, secret| act(&mut secret.0));
    }
}

/// Returns the configuration with every secret replaced.
pub fn redacted(config: &Config) -> Config {
    let mut copy = config.clone();
    for_each_secret(&mut copy, &mut |secret| *secret = SECRET_NOT_SHOWN.into());
    copy
}

/// Returns the host with its secret replaced.
pub fn redacted_host(host: &HostSpec) -> HostSpec {
    HostSpec {
        chap: host.chap.as_ref().map(hidden),
        ..host.clone()
    }
}

/// Returns the target with its secret replaced.
pub fn redacted_target(target: &TargetSpec) -> TargetSpec {
    TargetSpec {
        mutual_chap: target.mutual_chap.as_ref().map(hidden),
        ..target.clone()
    }
}

/// Returns the login with its secrets replaced.
pub fn redacted_login(login: &LoginSpec) -> LoginSpec {
    LoginSpec {
        chap: login.chap.as_ref().map(hidden),
        mutual_chap: login.mutual_chap.as_ref().map(hidden),
        ..login.clone()
    }
}

/// Returns the way out with its secrets replaced.
pub fn redacted_way(way: &WaySpec) -> WaySpec {
    let mut copy = way.clone();
    copy.each_secret(|_, secret| secret.0 = SECRET_NOT_SHOWN.into());
    copy
}

fn hidden(chap: &ChapSecret) -> ChapSecret {
    ChapSecret {
        user: chap.user.clone(),
        secret: SECRET_NOT_SHOWN.into(),
    }
}

/// Puts the secrets of `current` where `wanted` says to keep them. If there is no secret to keep,
/// the marker stays, and validation refuses it.
pub fn keep_secrets(current: &Config, wanted: &mut Config) {
    let keep = |new: &mut Option<ChapSecret>, old: Option<&ChapSecret>| {
        if let (Some(new), Some(old)) = (new, old)
            && new.secret == SECRET_NOT_SHOWN
        {
            new.secret.clone_from(&old.secret);
        }
    };
    keep(&mut wanted.discovery_chap, current.discovery_chap.as_ref());
    keep(
        &mut wanted.discovery_mutual_chap,
        current.discovery_mutual_chap.as_ref(),
    );
    for host in &mut wanted.hosts {
        keep(
            &mut host.chap,
            current.host(&host.name).and_then(|host| host.chap.as_ref()),
        );
    }
    for target in &mut wanted.targets {
        keep(
            &mut target.mutual_chap,
            current
                .target(&target.iqn)
                .and_then(|target| target.mutual_chap.as_ref()),
        );
    }
    for way in &mut wanted.alert_ways {
        let Some(old) = current.alert_way(&way.name) else {
            continue;
        };
        let old = old.secrets();
        way.each_secret(|field, secret| {
            let mut same = old.iter().filter(|(name, _)| *name == field);
            if let Some((_, old)) = same.next()
                && secret.0 == SECRET_NOT_SHOWN
            {
                secret.clone_from(old);
            }
        });
    }
    for login in &mut wanted.initiator.targets {
        let old = current.initiator.target(&login.iqn);
        keep(&mut login.chap, old.and_then(|old| old.chap.as_ref()));
        keep(
            &mut login.mutual_chap,
            old.and_then(|old| old.mutual_chap.as_ref()),
        );
    }
}
