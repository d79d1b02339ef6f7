//! `iscsi://` URLs: one logical unit behind one portal, as libiscsi and QEMU write them.

use std::fmt;

use iscsi::chap::ChapCredential;
use iscsi::negotiation::DigestPolicy;

use super::settings::{Bind, Route, SessionSettings, TargetSettings};

const DEFAULT_PORT: u16 = 3260;

/// `iscsi://[user[%secret]@]host[:port]/target-iqn/lun[?key=value&…]`.
///
/// Keys: `portal` (one more portal, repeatable), `bind` (a source address or interface, repeatable:
/// every portal is reached from each), `sessions` (per way), `header_digest` and `data_digest`
/// (`crc32c` or `none`), `target_user` and `target_password` (mutual CHAP).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LunUrl {
    /// The target's iSCSI name.
    pub target: String,
    /// Its portals, `host:port`.
    pub portals: Vec<String>,
    /// Where connections start; empty: wherever the kernel routes.
    pub binds: Vec<Bind>,
    /// Sessions per way.
    pub sessions: u32,
    /// The logical unit.
    pub lun: u16,
    /// Our CHAP name and secret.
    pub credential: Option<ChapCredential>,
    /// What the target must prove.
    pub target_credential: Option<ChapCredential>,
    /// HeaderDigest, where the URL names it.
    pub header_digest: Option<DigestPolicy>,
    /// DataDigest, where the URL names it.
    pub data_digest: Option<DigestPolicy>,
}

/// What is wrong with a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError(String);

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = "iscsi://[user[%secret]@]host[:port]/target-iqn/lun";
        write!(f, "{}; a logical unit is named {form}", self.0)
    }
}

impl std::error::Error for UrlError {}

impl LunUrl {
    /// Whether `text` means to be such a URL.
    pub fn is_one(text: &str) -> bool {
        text.starts_with("iscsi://")
    }

    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let wrong = |what: String| UrlError(what);
        let rest = text
            .strip_prefix("iscsi://")
            .ok_or_else(|| wrong(format!("{text} does not begin with iscsi://")))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut parts = rest.splitn(3, '/');
        let (Some(authority), Some(target), Some(lun)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong("the target or the LUN is missing".to_owned()));
        };
        let (user, portal) = match authority.rsplit_once('@') {
            Some((user, portal)) => (Some(user), portal),
            None => (None, authority),
        };
        if target.is_empty() {
            return Err(wrong("the target's name is empty".to_owned()));
        }
        let lun = lun.trim_end_matches('/');
        let lun = lun.parse().ok().filter(|lun| *lun < 0x4000);
        let mut url = Self {
            target: target.to_owned(),
            portals: vec![with_port(portal)?],
            binds: Vec::new(),
            sessions: 1,
            lun: lun.ok_or_else(|| wrong("the LUN is no number below 16384".to_owned()))?,
            credential: user.map(credential),
            target_credential: None,
            header_digest: None,
            data_digest: None,
        };
        url.take_query(query)?;
        Ok(url)
    }

    fn take_query(&mut self, query: &str) -> Result<(), UrlError> {
        let (mut user, mut password) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "portal" => self.portals.push(with_port(value)?),
                "bind" => self.binds.push(bind(value)),
                "sessions" => {
                    let count = value.parse().ok().filter(|count| (1..=64).contains(count));
                    let wrong = || UrlError(format!("sessions={value} is no number from 1 to 64"));
                    self.sessions = count.ok_or_else(wrong)?;
                }
                "header_digest" => self.header_digest = Some(digest(value)?),
                "data_digest" => self.data_digest = Some(digest(value)?),
                "target_user" => user = Some(value.to_owned()),
                "target_password" => password = Some(value.to_owned()),
                _ => return Err(UrlError(format!("{key} is no option of a URL"))),
            }
        }
        self.target_credential = match (user, password) {
            (None, None) => None,
            (Some(name), Some(secret)) if self.credential.is_some() => Some(ChapCredential {
                name,
                secret: secret.into_bytes(),
            }),
            _ => {
                let what = "mutual CHAP needs user%secret@, target_user and target_password";
                return Err(UrlError(what.to_owned()));
            }
        };
        Ok(())
    }

    /// What to log in to, under the initiator name of `session`.
    pub fn settings(&self, mut session: SessionSettings) -> TargetSettings {
        if self.credential.is_some() {
            session.credential = self.credential.clone();
            session.target_credential = self.target_credential.clone();
        }
        if let Some(policy) = self.header_digest {
            session.limits.header_digest = policy;
        }
        if let Some(policy) = self.data_digest {
            session.limits.data_digest = policy;
        }
        let binds = self.binds.iter().cloned().map(Some);
        let binds: Vec<Option<Bind>> = if self.binds.is_empty() {
            vec![None]
        } else {
            binds.collect()
        };
        let routes = self.portals.iter().flat_map(|portal| {
            binds.iter().map(|bind| Route {
                portal: portal.clone(),
                bind: bind.clone(),
            })
        });
        TargetSettings {
            name: self.target.clone(),
            routes: routes.collect(),
            sessions: self.sessions,
            lun: Some(self.lun),
            session,
        }
    }
}

/// A portal with its port, which is 3260 where none is named.
///
/// # Errors
/// There is no host, or the port is no number.
pub fn with_port(portal: &str) -> Result<String, UrlError> {
    let wrong = || UrlError(format!("'{portal}' is no host[:port]"));
    let (host, port) = match portal.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
            (format!("[{host}]"), rest.strip_prefix(':'))
        }
        None => match portal.split_once(':') {
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (portal.to_owned(), None),
        },
    };
    let port = match port {
        Some(port) => port.parse().map_err(|_| wrong())?,
        None => DEFAULT_PORT,
    };
    if host.is_empty() || host == "[]" {
        return Err(wrong());
    }
    Ok(format!("{host}:{port}"))
}

/// A source address, or else the name of an interface.
pub fn bind(text: &str) -> Bind {
    match text.parse() {
        Ok(address) => Bind::Address(address),
        Err(_) => Bind::Interface(text.to_owned()),
    }
}

fn credential(user: &str) -> ChapCredential {
    // libiscsi separates them by %, and so does whoever copies its URLs.
    let (name, secret) = user.split_once('%').unwrap_or((user, ""));
    ChapCredential {
        name: name.to_owned(),
        secret: secret.as_bytes().to_vec(),
    }
}

fn digest(value: &str) -> Result<DigestPolicy, UrlError> {
    match value.to_ascii_lowercase().as_str() {
        "crc32c" => Ok(DigestPolicy::Require),
        "none" => Ok(DigestPolicy::Forbid),
        _ => Err(UrlError(format!("{value} is no digest: crc32c or none"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_a_lun_is() {
        let url =
            LunUrl::parse("iscsi://me%top%secret@san:860/iqn.2026-01.a:b/5").expect("well-formed");
        assert_eq!(
            (url.portals[0].as_str(), url.target.as_str(), url.lun),
            ("san:860", "iqn.2026-01.a:b", 5)
        );
        let credential = url.credential.expect("CHAP");
        assert_eq!(
            (credential.name.as_str(), &credential.secret[..]),
            ("me", &b"top%secret"[..])
        );
        let url = LunUrl::parse(
            "iscsi://[fe80::1]/iqn.a/0?portal=10.0.0.2&bind=eth1&bind=10.0.0.9&sessions=2",
        )
        .expect("well-formed");
        assert_eq!(url.portals, ["[fe80::1]:3260", "10.0.0.2:3260"]);
        let settings = url.settings(SessionSettings::new("iqn.x"));
        assert_eq!(
            (settings.routes.len(), settings.sessions, settings.lun),
            (4, 2, Some(0))
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, what) in [
            ("iscsi://host", "the target or the LUN is missing"),
            ("iscsi://host/iqn.a/x", "the LUN is no number"),
            ("iscsi://:3260/iqn.a/0", "is no host[:port]"),
            ("iscsi://h:99999/iqn.a/0", "is no host[:port]"),
            ("iscsi://h/iqn.a/0?sessions=0", "sessions=0 is no number"),
            ("iscsi://h/iqn.a/0?data_digest=md5", "md5 is no digest"),
            ("iscsi://h/iqn.a/0?foo=1", "foo is no option"),
            ("iscsi://h/iqn.a/0?target_user=x", "mutual CHAP needs"),
        ] {
            let error = LunUrl::parse(text).expect_err(text).to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
