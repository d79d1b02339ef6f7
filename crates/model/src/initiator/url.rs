//! `iscsi://` URLs: one logical unit behind one portal, as libiscsi and QEMU write them.

use std::fmt;

use iscsi::chap::ChapCredential;

use super::options::Options;
use super::settings::{Bind, DeviceSettings, Route, SessionSettings, TargetSettings};
use crate::name;

const DEFAULT_PORT: u16 = 3260;

/// A parsed URL `iscsi://[user[%secret]@]host[:port]/target-iqn/lun[?option=value&…]`, with the
/// settings of its options.
#[derive(Clone, Debug)]
pub struct LunUrl {
    /// Target with its portals, sessions and parameters.
    pub target: TargetSettings,
    /// Settings of the device.
    pub device: DeviceSettings,
    /// Names of the options in the URL.
    pub options: Vec<&'static str>,
}

/// Error in a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError(String);

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = "iscsi://[user[%secret]@]host[:port]/target-iqn/lun";
        write!(f, "{}; write a logical unit as {form}", self.0)
    }
}

impl std::error::Error for UrlError {}

impl LunUrl {
    /// Reports whether `text` looks like an `iscsi://` URL.
    pub fn is_one(text: &str) -> bool {
        text.starts_with("iscsi://")
    }

    /// Parses a URL. Settings that the URL does not give are taken from `session` and `device`.
    ///
    /// # Errors
    /// The URL is malformed. The error tells the problem.
    pub fn parse(
        text: &str,
        session: SessionSettings,
        device: DeviceSettings,
    ) -> Result<Self, UrlError> {
        let rest = text
            .strip_prefix("iscsi://")
            .ok_or_else(|| UrlError(format!("{text} does not begin with iscsi://")))?;
        // The secret may hold a question mark.
        let (authority, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !authority.contains('@') && rest.contains('@') {
            let what = "a secret in a URL cannot hold a slash";
            return Err(UrlError(what.to_owned()));
        }
        // The name of a target may hold slashes, but a LUN holds none.
        let Some((target, lun)) = rest.trim_end_matches('/').rsplit_once('/') else {
            return Err(UrlError("the target or the LUN is missing".to_owned()));
        };
        let (user, portal) = match authority.rsplit_once('@') {
            Some((user, portal)) => (Some(user), portal),
            None => (None, authority),
        };
        name::foreign(target)
            .map_err(|fault| UrlError(format!("{target:?} is not a valid target name: {fault}")))?;
        let lun = lun.parse().ok().filter(|lun| *lun < 0x4000);
        let lun = lun.ok_or_else(|| UrlError("the LUN is not a number below 16384".to_owned()))?;
        let mut session = session;
        if let Some(user) = user {
            session.credential = Some(credential(user));
            session.target_credential = None;
        }
        let target = TargetSettings {
            name: target.to_owned(),
            routes: vec![Route {
                portal: with_port(portal)?,
                bind: None,
            }],
            sessions: 1,
            lun: Some(lun),
            session,
        };
        let mut options = Options::new(target, device);
        for (name, value) in pairs(query) {
            options.set(name, value).map_err(UrlError)?;
        }
        options.finish().map_err(UrlError)
    }
}

/// Checks that an option accepts a value.
///
/// # Errors
/// The option does not accept the value. The error tells the accepted values.
pub fn check_option(name: &str, value: &str) -> Result<(), String> {
    let target = TargetSettings {
        name: String::new(),
        routes: Vec::new(),
        sessions: 1,
        lun: None,
        session: SessionSettings::new(""),
    };
    Options::new(target, DeviceSettings::default()).set(name, value)
}

/// Returns the URL with another LUN.
pub fn at_lun(url: &str, lun: u16) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("iscsi", url));
    let (authority, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (rest, String::new()),
    };
    let path = path.trim_end_matches('/');
    let target = path.rsplit_once('/').map_or(path, |(target, _)| target);
    format!("{scheme}://{authority}/{target}/{lun}{query}")
}

/// Returns the names and values of `a=b&c=d`.
pub fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// Returns the portal with its port. The default port is 3260.
///
/// # Errors
/// The host is missing, or the port is no number.
pub fn with_port(portal: &str) -> Result<String, UrlError> {
    let wrong = || UrlError(format!("'{portal}' is not of the form host[:port]"));
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

/// Parses a source address, or else takes the text as the name of an interface.
pub fn bind(text: &str) -> Bind {
    match text.parse() {
        Ok(address) => Bind::Address(address),
        Err(_) => Bind::Interface(text.to_owned()),
    }
}

fn credential(user: &str) -> ChapCredential {
    // libiscsi separates user and secret by %. Users copy such URLs.
    let (name, secret) = user.split_once('%').unwrap_or((user, ""));
    ChapCredential {
        name: name.to_owned(),
        secret: secret.as_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multipath::Psp;

    fn parse(text: &str) -> Result<LunUrl, UrlError> {
        LunUrl::parse(
            text,
            SessionSettings::new("iqn.x"),
            DeviceSettings::default(),
        )
    }

    #[test]
    fn another_lun_is_all_that_changes() {
        let url = "iscsi://u%a?b@[::1]:3261/iqn.x:y/0?psp=rr&portal=h/x";
        assert_eq!(
            at_lun(url, 12),
            "iscsi://u%a?b@[::1]:3261/iqn.x:y/12?psp=rr&portal=h/x"
        );
        assert_eq!(at_lun("iscsi://h/iqn.x/3/", 0), "iscsi://h/iqn.x/0");
    }

    #[test]
    fn a_url_says_where_a_lun_is() {
        let url = parse("iscsi://me%top%secret@san:860/iqn.2026-01.a:b/5").expect("well-formed");
        let target = url.target;
        assert_eq!(
            (
                target.routes[0].portal.as_str(),
                target.name.as_str(),
                target.lun
            ),
            ("san:860", "iqn.2026-01.a:b", Some(5))
        );
        let credential = target.session.credential.expect("CHAP");
        assert_eq!(
            (credential.name.as_str(), &credential.secret[..]),
            ("me", &b"top%secret"[..])
        );
        let url =
            parse("iscsi://[fe80::1]/iqn.a/0?portal=10.0.0.2&bind=eth1&bind=10.0.0.9&sessions=2")
                .expect("well-formed");
        let portals: Vec<&str> = url
            .target
            .routes
            .iter()
            .map(|route| route.portal.as_str())
            .collect();
        assert_eq!(
            portals,
            [
                "[fe80::1]:3260",
                "[fe80::1]:3260",
                "10.0.0.2:3260",
                "10.0.0.2:3260"
            ]
        );
        assert_eq!((url.target.sessions, url.target.lun), (2, Some(0)));
    }

    #[test]
    fn a_target_keeps_the_name_that_the_url_spells() {
        for name in [
            "iqn.2000-01.com.x:DiskStation.Target-1",
            "Target-911data",
            "a b_c",
            "a/b#c%20",
            "eui.02",
        ] {
            let url = format!("iscsi://h/{name}/3?sessions=2");
            let parsed = parse(&url).expect(name).target;
            assert_eq!((parsed.name.as_str(), parsed.lun), (name, Some(3)));
            assert_eq!(at_lun(&url, 4), format!("iscsi://h/{name}/4?sessions=2"));
        }
    }

    #[test]
    fn options_set_what_the_field_reports_turn() {
        let url = parse("iscsi://h/iqn.a/0?psp=rr&iops=1&queue_depth=64&max_outstanding_r2t=1&max_io=32K&immediate_data=no&window=4M&quick_ack=yes").expect("well-formed");
        let (psp, round_robin) = url.device.psp.expect("named");
        assert_eq!((psp, round_robin.iops), (Psp::RoundRobin, 1));
        assert_eq!(
            (url.device.base.queue_depth, url.device.max_io),
            (64, Some(32 << 10))
        );
        let limits = &url.target.session.limits;
        assert_eq!(
            (limits.max_outstanding_r2t, limits.immediate_data),
            (1, false)
        );
        let tcp = url.target.session.tcp;
        assert_eq!((tcp.window, tcp.quick_ack), (Some(4 << 20), true));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, what) in [
            ("iscsi://host", "the target or the LUN is missing"),
            ("iscsi://host/iqn.a/x", "the LUN is not a number"),
            ("iscsi://host//0", "is not a valid target name: it is empty"),
            (
                "iscsi://host/a,b/0",
                "is not a valid target name: it holds a comma",
            ),
            (
                "iscsi://host/iqn.a/0?initiator_name=a*",
                "initiator_name=a*: give an iSCSI name",
            ),
            ("iscsi://:3260/iqn.a/0", "is not of the form host[:port]"),
            ("iscsi://h:99999/iqn.a/0", "is not of the form host[:port]"),
            (
                "iscsi://h/iqn.a/0?sessions=0",
                "sessions=0: give a number from 1 to 64",
            ),
            (
                "iscsi://h/iqn.a/0?data_digest=md5",
                "data_digest=md5: give crc32c or none",
            ),
            (
                "iscsi://h/iqn.a/0?foo=1",
                "option foo is unknown; the options are",
            ),
            ("iscsi://h/iqn.a/0?target_user=x", "mutual CHAP needs"),
            (
                "iscsi://h/iqn.a/0?psp=fastest",
                "psp=fastest: give fixed, mru, rr",
            ),
            ("iscsi://h/iqn.a/0?iops=0", "iops=0"),
            ("iscsi://h/iqn.a/0?max_io=1000", "max_io=1000: give"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
