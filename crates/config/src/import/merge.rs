//! Merges an import with the existing configuration.

use super::Error;
use model::config::{Config, HostSpec};

/// Adds an import to a configuration, whose secrets need not be shown. If both require a secret of
/// one initiator, the secrets are taken to differ. Objects with equal names are left for validation
/// to refuse.
///
/// # Errors
/// Some initiator could authenticate itself with a secret that is good for other targets only,
/// because it has one secret for all.
pub fn merge(mut running: Config, imported: Config) -> Result<Config, Error> {
    for host in imported.hosts.iter().filter(|host| host.chap.is_some()) {
        let clashes = |other: &&HostSpec| {
            other.name != host.name && other.chap.is_some() && other.may_share_a_member(host)
        };
        if let Some(other) = running.hosts.iter().find(clashes) {
            return Err(Error::invalid(
                format!(
                    "host {} of this machine and host {} of the import may have an initiator in common, and \
                     each requires its own secret",
                    other.name, host.name
                ),
                format!(
                    "remove the initiator from one of the hosts, for example with `sandstone host \
                     remove-initiator {} IQN`, and import again",
                    other.name
                ),
            ));
        }
    }
    if imported.discovery_chap.is_some() {
        if running.discovery_chap.is_some() {
            return Err(Error::invalid(
                "discovery requires one secret on this machine and another secret in the import",
                "remove the user of discovery from the file (discovery_enable_auth of LIO, IncomingUser of \
                 SCST's driver), and import it again: the secret of this machine stays",
            ));
        }
        running.discovery_chap = imported.discovery_chap;
    }
    if running.discovery_mutual_chap.is_none() {
        running.discovery_mutual_chap = imported.discovery_mutual_chap;
    }
    running.units.extend(imported.units);
    running.targets.extend(imported.targets);
    running.target_groups.extend(imported.target_groups);
    running.hosts.extend(imported.hosts);
    running.maps.extend(imported.maps);
    Ok(running)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::config::ChapSecret;

    fn with(name: &str, initiators: &[&str], except: &[&str], secret: Option<&str>) -> Config {
        let owned = |list: &[&str]| list.iter().map(|p| (*p).to_owned()).collect();
        let chap = secret.map(|secret| ChapSecret {
            user: "user".into(),
            secret: secret.into(),
        });
        Config {
            hosts: vec![HostSpec {
                name: name.into(),
                initiators: owned(initiators),
                except: owned(except),
                chap,
            }],
            ..Config::default()
        }
    }

    #[test]
    fn an_import_never_changes_which_secret_opens_a_target() {
        let running = || with("old", &["iqn.2001-04.x:a"], &[], Some("secret-of-old"));
        let everybody = |except: &[&str], secret| with("new", &["*"], except, secret);
        let refused = merge(running(), everybody(&[], Some("secret-of-new"))).unwrap_err();
        assert!(refused.message.contains("its own secret"), "{refused}");
        for imported in [
            everybody(&["iqn.2001-04.x:*"], Some("secret-of-new")),
            everybody(&[], None),
        ] {
            assert_eq!(merge(running(), imported).unwrap().hosts.len(), 2);
        }
    }

    #[test]
    fn a_secret_of_discovery_is_never_replaced() {
        let discovery = |secret: &str| Config {
            discovery_chap: Some(ChapSecret {
                user: "user".into(),
                secret: secret.into(),
            }),
            ..Config::default()
        };
        let merged = merge(Config::default(), discovery("secret-of-new")).unwrap();
        assert_eq!(merged, discovery("secret-of-new"));
        assert_eq!(merge(merged.clone(), Config::default()).unwrap(), merged);
        assert!(merge(merged, discovery("secret-of-new")).is_err());
    }
}
