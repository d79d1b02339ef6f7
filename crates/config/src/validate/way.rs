//! Rules of ways out for alerts.

use super::{SECRET_NOT_SHOWN, object_name};
use model::config::Config;
use model::error::Error;
use model::way::{HeartbeatSpec, MailSpec, WaySpec, WebhookFormat, WebhookSpec};

/// Most ways. Each takes a thread while it sends.
const MAX_WAYS: usize = 16;
/// Most addresses of one mail.
const MAX_TO: usize = 20;
/// Most bytes of any text.
const MAX_TEXT: usize = 2048;

/// Checks all ways.
pub(super) fn ways(config: &Config) -> Result<(), Error> {
    let ways = &config.alert_ways;
    if ways.len() > MAX_WAYS {
        return Err(Error::invalid(
            format!("{} ways out for alerts are too many", ways.len()),
            format!("use at most {MAX_WAYS}"),
        ));
    }
    for (at, way) in ways.iter().enumerate() {
        object_name("way", &way.name)?;
        if ways[..at].iter().any(|other| other.name == way.name) {
            return Err(Error::exists(
                format!("two ways are called {}", way.name),
                "choose another name",
            ));
        }
        one(way)?;
    }
    Ok(())
}

fn one(way: &WaySpec) -> Result<(), Error> {
    let name = &way.name;
    for (field, secret) in way.secrets() {
        if secret.0 == SECRET_NOT_SHOWN {
            return Err(Error::invalid(
                format!(
                    "way {name}: {SECRET_NOT_SHOWN} stands in place of {field}, and there is no present value to keep"
                ),
                "write the value itself",
            ));
        }
        text(name, field, &secret.0)?;
    }
    match (&way.webhook, &way.mail, &way.heartbeat) {
        (Some(webhook), None, None) => of_webhook(name, webhook),
        (None, Some(mail), None) => of_mail(name, mail),
        (None, None, Some(heartbeat)) => of_heartbeat(name, heartbeat),
        _ => Err(Error::invalid(
            format!("way {name} is not exactly one of webhook, mail and heartbeat"),
            "make a way of its own for each",
        )),
    }
}

fn of_webhook(name: &str, webhook: &WebhookSpec) -> Result<(), Error> {
    url(name, &webhook.url.0)?;
    authorities(name, webhook.ca.as_deref())?;
    if let Some(key) = &webhook.key
        && key.0.len() < 16
    {
        return Err(Error::invalid(
            format!("way {name}: the key has {} bytes", key.0.len()),
            "use 16 bytes or more, made at random",
        ));
    }
    if webhook.format == WebhookFormat::Gotify && webhook.token.is_none() {
        return Err(Error::invalid(
            format!("way {name}: Gotify needs the token of an application"),
            "make an application in Gotify, and give its token",
        ));
    }
    let topic = webhook.url.0.rsplit('/').next().unwrap_or_default();
    let has_topic = webhook.url.0.matches('/').count() > 2 && !topic.is_empty();
    if webhook.format == WebhookFormat::Ntfy && !has_topic {
        return Err(Error::invalid(
            format!("way {name}: the address names no topic of ntfy"),
            "write the address of the topic, such as https://ntfy.example/san",
        ));
    }
    Ok(())
}

fn of_heartbeat(name: &str, heartbeat: &HeartbeatSpec) -> Result<(), Error> {
    url(name, &heartbeat.url.0)?;
    authorities(name, heartbeat.ca.as_deref())?;
    if (10..=86_400).contains(&heartbeat.every_s) {
        return Ok(());
    }
    Err(Error::invalid(
        format!("way {name}: a heartbeat every {} s", heartbeat.every_s),
        "choose 10 to 86400 seconds",
    ))
}

fn of_mail(name: &str, mail: &MailSpec) -> Result<(), Error> {
    let (host, port) = match mail.server.rsplit_once(':') {
        // An IPv6 address stands in brackets where a port follows.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (mail.server.as_str(), None),
    };
    let is_host = |letter: char| letter.is_ascii_alphanumeric() || ".-:[]_".contains(letter);
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    if host.is_empty() || host.len() > 253 || !host.chars().all(is_host) || !is_port {
        return Err(Error::invalid(
            format!(
                "way {name}: {:?} is not the name of a mail server",
                mail.server
            ),
            "write its name or address, and the port if it is not the usual one: mail.example:587",
        ));
    }
    if mail.to.is_empty() || mail.to.len() > MAX_TO {
        return Err(Error::invalid(
            format!("way {name}: the mail goes to {} addresses", mail.to.len()),
            format!("name 1 to {MAX_TO} addresses"),
        ));
    }
    for address in mail.to.iter().chain([&mail.from]) {
        self::address(name, address)?;
    }
    if mail.user.is_some() != mail.password.is_some() {
        return Err(Error::invalid(
            format!("way {name}: a user needs a password, and a password a user"),
            "give both or none",
        ));
    }
    if mail.user.is_some() && mail.tls == model::way::MailTls::None {
        return Err(Error::invalid(
            format!("way {name}: the password would cross the network in the clear"),
            "use starttls or tls; or a server that takes mail from this machine without a password",
        ));
    }
    if let Some(user) = &mail.user {
        text(name, "mail.user", user)?;
    }
    authorities(name, mail.ca.as_deref())
}

/// Checks a plain address of mail, as far as it can do harm: the server judges the rest.
fn address(name: &str, address: &str) -> Result<(), Error> {
    let plain = |letter: char| letter.is_ascii_graphic() && !"<>()[],;:\\\"".contains(letter);
    let parts = address.split_once('@');
    let is_whole = parts.is_some_and(|(user, domain)| {
        !user.is_empty() && !domain.is_empty() && !domain.contains('@')
    });
    if is_whole && address.len() <= 254 && address.chars().all(plain) {
        return Ok(());
    }
    Err(Error::invalid(
        format!("way {name}: {address:?} is not an address of mail"),
        "write it as name@example.org, without a name in words",
    ))
}

fn url(name: &str, url: &str) -> Result<(), Error> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    let is_host = |host: &str| {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || ".-:[]_".contains(letter);
        !host.is_empty() && host.chars().all(plain)
    };
    if host.is_some_and(is_host) && url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(Error::invalid(
        format!("way {name}: its address is not valid"),
        "write it as https://host/path or http://host:port/path, without user and password",
    ))
}

fn authorities(name: &str, path: Option<&str>) -> Result<(), Error> {
    match path {
        Some(path) if !path.starts_with('/') || path.contains('\0') => Err(Error::invalid(
            format!("way {name}: ca {path:?} is not the whole path of a file"),
            "write the path from / on, on the machine of the daemon",
        )),
        _ => Ok(()),
    }
}

fn text(name: &str, field: &str, text: &str) -> Result<(), Error> {
    if !text.is_empty() && text.len() <= MAX_TEXT && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Error::invalid(
        format!("way {name}: {field} is empty, too long, or holds control characters"),
        format!("use 1 to {MAX_TEXT} printable bytes"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::way::{MailTls, Secret};

    fn webhook(url: &str) -> WaySpec {
        WaySpec {
            name: "desk".to_owned(),
            webhook: Some(WebhookSpec {
                url: Secret(url.to_owned()),
                ..WebhookSpec::default()
            }),
            ..WaySpec::default()
        }
    }

    fn mail() -> MailSpec {
        MailSpec {
            server: "mail.example".to_owned(),
            from: "san@example.org".to_owned(),
            to: vec!["ops@example.org".to_owned()],
            ..MailSpec::default()
        }
    }

    fn by(mail: MailSpec) -> WaySpec {
        WaySpec {
            name: "desk".to_owned(),
            mail: Some(mail),
            ..WaySpec::default()
        }
    }

    fn refused(way: WaySpec) -> String {
        let config = Config {
            alert_ways: vec![way],
            ..Config::default()
        };
        match ways(&config) {
            Ok(()) => String::new(),
            Err(error) => error.message,
        }
    }

    #[test]
    fn addresses_of_webhooks() {
        for url in [
            "https://hooks.example/T0/B0?x=1",
            "http://192.0.2.1:9000",
            "http://[::1]:80/",
        ] {
            assert_eq!(refused(webhook(url)), "", "{url}");
        }
        for url in [
            "ftp://example/",
            "https://",
            "https:///path",
            "https://user:word@example/",
            "https://example/a b",
            "https://example/\r\nX: y",
            "https://exämple/",
            "",
        ] {
            assert_ne!(refused(webhook(url)), "", "{url}");
        }
        assert!(refused(webhook(SECRET_NOT_SHOWN)).contains("no present value"));
    }

    #[test]
    fn addresses_of_mail() {
        assert_eq!(refused(by(mail())), "");
        for to in [
            "ops",
            "@example.org",
            "ops@",
            "a@b@c",
            "ops@example.org\r\nBcc: x@example.org",
            "Ops <ops@example.org>",
            "a@example.org, b@example.org",
        ] {
            let to = vec![to.to_owned()];
            assert_ne!(refused(by(MailSpec { to, ..mail() })), "");
        }
        for server in ["", "a b", "mail.example:0", "mail.example:x", "mail\r\n"] {
            let server = server.to_owned();
            assert_ne!(refused(by(MailSpec { server, ..mail() })), "");
        }
        for server in [
            "mail.example:2525",
            "192.0.2.1",
            "[2001:db8::1]:25",
            "2001:db8::1",
        ] {
            let server = server.to_owned();
            assert_eq!(refused(by(MailSpec { server, ..mail() })), "");
        }
    }

    #[test]
    fn a_password_needs_a_user_and_protection() {
        let user = Some("san".to_owned());
        let password = Some(Secret("a password".to_owned()));
        let alone = MailSpec {
            user: user.clone(),
            ..mail()
        };
        assert!(refused(by(alone)).contains("needs a password"));
        let both = MailSpec {
            user,
            password,
            ..mail()
        };
        assert_eq!(refused(by(both.clone())), "");
        let tls = MailTls::None;
        assert!(refused(by(MailSpec { tls, ..both })).contains("in the clear"));
    }

    #[test]
    fn a_way_is_of_one_kind() {
        let mut both = by(mail());
        both.webhook = webhook("https://example/").webhook;
        assert!(refused(both).contains("exactly one"));
        assert!(
            refused(WaySpec {
                name: "desk".to_owned(),
                ..WaySpec::default()
            })
            .contains("exactly one")
        );
        let mut gotify = webhook("https://example/");
        if let Some(webhook) = &mut gotify.webhook {
            webhook.format = WebhookFormat::Gotify;
        }
        assert!(refused(gotify).contains("token"));
        let mut ntfy = webhook("https://ntfy.example/");
        if let Some(webhook) = &mut ntfy.webhook {
            webhook.format = WebhookFormat::Ntfy;
        }
        assert!(refused(ntfy).contains("topic"));
    }
}
