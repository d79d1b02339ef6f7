//! Ways out for alerts: webhooks, mail, and a heartbeat that tells that the machine lives. They are
//! part of the configuration.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::event::Severity;

/// A text that is never shown. `Debug` does not print it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, format = Password)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// A way out. Exactly one of `webhook`, `mail` and `heartbeat` is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WaySpec {
    /// Name of the way.
    pub name: String,
    /// Least severity of alerts that are told this way. A heartbeat has none.
    #[serde(default = "warning")]
    pub least: Severity,
    /// Server that alerts are posted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookSpec>,
    /// People who get mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<MailSpec>,
    /// Server that is to notice when this machine falls silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<HeartbeatSpec>,
}

fn warning() -> Severity {
    Severity::Warning
}

/// A server that alerts are posted to over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookSpec {
    /// Address, http or https. It counts as a secret, since most services put a token into it.
    pub url: Secret,
    /// Form of the body.
    #[serde(default)]
    pub format: WebhookFormat,
    /// Key with which each request is signed: HMAC-SHA256 over the time, a dot and the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Secret>,
    /// Token of the service, sent as its format demands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// File with the certificates of the authorities to trust, in place of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

/// Form of a webhook's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WebhookFormat {
    /// All fields of the alert.
    #[default]
    Json,
    /// Incoming webhook of Slack, and of what takes its form (Mattermost, Rocket.Chat).
    Slack,
    /// Workflow of Microsoft Teams, with an adaptive card.
    Teams,
    /// Topic of ntfy.
    Ntfy,
    /// Application of Gotify.
    Gotify,
}

impl WebhookFormat {
    /// All formats.
    pub const ALL: [Self; 5] = [
        Self::Json,
        Self::Slack,
        Self::Teams,
        Self::Ntfy,
        Self::Gotify,
    ];

    /// Returns the format's word in listings and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Slack => "slack",
            Self::Teams => "teams",
            Self::Ntfy => "ntfy",
            Self::Gotify => "gotify",
        }
    }

    /// Returns the format of the given word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == word)
    }
}

/// People who get mail, and the server that takes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MailSpec {
    /// Name or address of the server, with `:port` if it is not the usual one of `tls`.
    pub server: String,
    /// Protection of the connection.
    #[serde(default)]
    pub tls: MailTls,
    /// Address that the mail comes from.
    pub from: String,
    /// Addresses that the mail goes to.
    pub to: Vec<String>,
    /// User to log in as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Password of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// File with the certificates of the authorities to trust, in place of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

/// Protection of a connection to a mail server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MailTls {
    /// The connection begins in the clear and changes to TLS (port 587). Without TLS nothing is
    /// sent.
    #[default]
    Starttls,
    /// TLS from the first byte on (port 465).
    Tls,
    /// No protection (port 25).
    None,
}

impl MailTls {
    /// All kinds of protection.
    pub const ALL: [Self; 3] = [Self::Starttls, Self::Tls, Self::None];

    /// Returns the word in listings and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starttls => "starttls",
            Self::Tls => "tls",
            Self::None => "none",
        }
    }

    /// Returns the protection of the given word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tls| tls.as_str() == word)
    }

    /// Returns the usual port.
    pub fn port(self) -> u16 {
        match self {
            Self::Starttls => 587,
            Self::Tls => 465,
            Self::None => 25,
        }
    }
}

/// A server that is asked at a fixed pace, and that alarms when no request comes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatSpec {
    /// Address, http or https. It counts as a secret.
    pub url: Secret,
    /// Seconds from one request to the next.
    #[serde(default = "minute")]
    pub every_s: u32,
    /// File with the certificates of the authorities to trust, in place of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

fn minute() -> u32 {
    60
}

impl WaySpec {
    /// Returns the kind of the way: `webhook`, `mail` or `heartbeat`.
    pub fn kind(&self) -> &'static str {
        match (&self.webhook, &self.mail) {
            (Some(_), _) => "webhook",
            (None, Some(_)) => "mail",
            (None, None) => "heartbeat",
        }
    }

    /// Returns the other end of the way, without its secrets.
    pub fn place(&self) -> String {
        if let Some(mail) = &self.mail {
            return format!("{} by {}", mail.to.join(", "), mail.server);
        }
        let webhook = self.webhook.as_ref().map(|it| &it.url);
        let url = webhook.or(self.heartbeat.as_ref().map(|it| &it.url));
        let Some((scheme, rest)) = url.and_then(|url| url.0.split_once("://")) else {
            return String::new();
        };
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        format!("{scheme}://{host}")
    }

    /// Returns the secrets of the way, each with the name of its field.
    pub fn secrets(&self) -> Vec<(&'static str, &Secret)> {
        let mut all = Vec::new();
        if let Some(webhook) = &self.webhook {
            all.push(("webhook.url", &webhook.url));
            all.extend(webhook.key.iter().map(|key| ("webhook.key", key)));
            all.extend(webhook.token.iter().map(|token| ("webhook.token", token)));
        }
        if let Some(mail) = &self.mail {
            let password = mail.password.iter();
            all.extend(password.map(|password| ("mail.password", password)));
        }
        if let Some(heartbeat) = &self.heartbeat {
            all.push(("heartbeat.url", &heartbeat.url));
        }
        all
    }

    /// Changes each secret. `change` is given the name of its field.
    pub fn each_secret(&mut self, mut change: impl FnMut(&'static str, &mut Secret)) {
        if let Some(webhook) = &mut self.webhook {
            change("webhook.url", &mut webhook.url);
            webhook
                .key
                .iter_mut()
                .for_each(|key| change("webhook.key", key));
            let token = webhook.token.iter_mut();
            token.for_each(|token| change("webhook.token", token));
        }
        if let Some(mail) = &mut self.mail {
            let password = mail.password.iter_mut();
            password.for_each(|password| change("mail.password", password));
        }
        if let Some(heartbeat) = &mut self.heartbeat {
            change("heartbeat.url", &mut heartbeat.url);
        }
    }
}

/// A way out and its state. Secrets are not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WayView {
    /// Configuration of the way, without its secrets.
    pub spec: WaySpec,
    /// Kind of the way: `webhook`, `mail` or `heartbeat`.
    pub kind: String,
    /// The other end of the way.
    pub place: String,
    /// Number of messages that wait.
    pub queued: usize,
    /// Time of the last message that was taken, in milliseconds since 1970. `None` means that none
    /// was since the daemon started.
    pub reached_ms: Option<u64>,
    /// Time since which the way cannot be reached, in milliseconds since 1970.
    pub failing_since_ms: Option<u64>,
    /// Last error, while the way cannot be reached.
    pub error: Option<String>,
}

/// Result of `alert test`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WayTested {
    /// Name of the way.
    pub way: String,
    /// The other end of the way.
    pub place: String,
    /// Milliseconds until the message was taken.
    pub took_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_debug_nor_the_place_tells_a_secret() {
        let way = WaySpec {
            webhook: Some(WebhookSpec {
                url: Secret("https://hooks.example:8443/T0/secret?token=secret".to_owned()),
                key: Some(Secret("a secret key".to_owned())),
                ..WebhookSpec::default()
            }),
            ..WaySpec::default()
        };
        assert_eq!(way.place(), "https://hooks.example:8443");
        assert!(!format!("{way:?}").contains("secret"));
        assert_eq!(way.secrets().len(), 2);
    }

    #[test]
    fn all_secrets_are_changed() {
        let mut way = WaySpec {
            webhook: Some(WebhookSpec {
                key: Some(Secret::default()),
                token: Some(Secret::default()),
                ..WebhookSpec::default()
            }),
            mail: Some(MailSpec {
                password: Some(Secret::default()),
                ..MailSpec::default()
            }),
            heartbeat: Some(HeartbeatSpec::default()),
            ..WaySpec::default()
        };
        way.each_secret(|name, secret| secret.0 = name.to_owned());
        assert_eq!(way.secrets().len(), 5);
        assert!(way.secrets().iter().all(|(name, secret)| secret.0 == *name));
    }
}
