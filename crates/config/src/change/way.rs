//! Edits of ways out for alerts.

use super::*;
use model::event::Severity;
use model::way::{MailTls, Secret, WaySpec, WebhookFormat};

/// Changes of a way. Values that are left out stay. An empty text removes what may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModifyWay {
    /// Least severity of alerts that are told this way.
    #[serde(default)]
    pub least: Option<Severity>,
    /// Address of a webhook or heartbeat.
    #[serde(default)]
    #[schema(write_only)]
    pub url: Option<Secret>,
    /// Form of a webhook's body.
    #[serde(default)]
    pub format: Option<WebhookFormat>,
    /// Key with which requests to a webhook are signed.
    #[serde(default)]
    #[schema(write_only)]
    pub key: Option<Secret>,
    /// Token of a webhook's service.
    #[serde(default)]
    #[schema(write_only)]
    pub token: Option<Secret>,
    /// Seconds from one heartbeat to the next.
    #[serde(default)]
    pub every_s: Option<u32>,
    /// Name or address of a mail server.
    #[serde(default)]
    pub server: Option<String>,
    /// Protection of the connection to a mail server.
    #[serde(default)]
    pub tls: Option<MailTls>,
    /// Address that mail comes from.
    #[serde(default)]
    pub from: Option<String>,
    /// Addresses that mail goes to.
    #[serde(default)]
    pub to: Option<Vec<String>>,
    /// User to log in to a mail server as.
    #[serde(default)]
    pub user: Option<String>,
    /// Password of the user.
    #[serde(default)]
    #[schema(write_only)]
    pub password: Option<Secret>,
    /// File with the certificates of the authorities to trust.
    #[serde(default)]
    pub ca: Option<String>,
}

impl ModifyWay {
    /// Returns the names of the values that only ways of this kind do not have.
    fn foreign(&self, kind: &str) -> Vec<&'static str> {
        let all: [(&'static str, bool, &[&str]); 13] = [
            ("least", self.least.is_some(), &["webhook", "mail"]),
            ("url", self.url.is_some(), &["webhook", "heartbeat"]),
            ("format", self.format.is_some(), &["webhook"]),
            ("key", self.key.is_some(), &["webhook"]),
            ("token", self.token.is_some(), &["webhook"]),
            ("every_s", self.every_s.is_some(), &["heartbeat"]),
            ("server", self.server.is_some(), &["mail"]),
            ("tls", self.tls.is_some(), &["mail"]),
            ("from", self.from.is_some(), &["mail"]),
            ("to", self.to.is_some(), &["mail"]),
            ("user", self.user.is_some(), &["mail"]),
            ("password", self.password.is_some(), &["mail"]),
            ("ca", self.ca.is_some(), &["webhook", "mail", "heartbeat"]),
        ];
        let foreign = all
            .into_iter()
            .filter(|(_, is_given, kinds)| *is_given && !kinds.contains(&kind));
        foreign.map(|(name, ..)| name).collect()
    }
}

fn put<T: Clone>(place: &mut T, value: Option<&T>) {
    if let Some(value) = value {
        place.clone_from(value);
    }
}

fn put_secret(place: &mut Option<Secret>, value: Option<&Secret>) {
    if let Some(value) = value {
        *place = Some(value.clone()).filter(|value| !value.0.is_empty());
    }
}

fn put_text(place: &mut Option<String>, value: Option<&String>) {
    if let Some(value) = value {
        *place = Some(value.clone()).filter(|value| !value.is_empty());
    }
}

impl Edit {
    pub(super) fn add_way(&mut self, way: &WaySpec) -> Result<(), Error> {
        let mut ways = self.config.alert_ways.iter();
        if ways.any(|other| other.name == way.name) {
            return Err(Error::exists(
                format!("way {} exists already", way.name),
                "choose another name, or use sandstone alert way modify",
            ));
        }
        self.config.alert_ways.push(way.clone());
        Ok(())
    }

    pub(super) fn modify_way(&mut self, name: &str, request: &ModifyWay) -> Result<(), Error> {
        let way = self.way_mut(name)?;
        let foreign = request.foreign(way.kind());
        if !foreign.is_empty() {
            return Err(Error::invalid(
                format!(
                    "way {name} is a {} and has no {}",
                    way.kind(),
                    foreign.join(", ")
                ),
                "leave it out; or remove the way, and add one of the other kind",
            ));
        }
        put(&mut way.least, request.least.as_ref());
        if let Some(webhook) = &mut way.webhook {
            put(&mut webhook.url, request.url.as_ref());
            put(&mut webhook.format, request.format.as_ref());
            put_secret(&mut webhook.key, request.key.as_ref());
            put_secret(&mut webhook.token, request.token.as_ref());
            put_text(&mut webhook.ca, request.ca.as_ref());
        }
        if let Some(mail) = &mut way.mail {
            put(&mut mail.server, request.server.as_ref());
            put(&mut mail.tls, request.tls.as_ref());
            put(&mut mail.from, request.from.as_ref());
            put(&mut mail.to, request.to.as_ref());
            put_text(&mut mail.user, request.user.as_ref());
            put_secret(&mut mail.password, request.password.as_ref());
            put_text(&mut mail.ca, request.ca.as_ref());
        }
        if let Some(heartbeat) = &mut way.heartbeat {
            put(&mut heartbeat.url, request.url.as_ref());
            put(&mut heartbeat.every_s, request.every_s.as_ref());
            put_text(&mut heartbeat.ca, request.ca.as_ref());
        }
        Ok(())
    }

    pub(super) fn remove_way(&mut self, name: &str) -> Result<(), Error> {
        self.way_mut(name)?;
        self.config.alert_ways.retain(|way| way.name != name);
        Ok(())
    }

    fn way_mut(&mut self, name: &str) -> Result<&mut WaySpec, Error> {
        let mut ways = self.config.alert_ways.iter_mut();
        ways.find(|way| way.name == name).ok_or_else(|| {
            Error::not_found(
                format!("way {name} does not exist"),
                "sandstone alert way list shows the ways",
            )
        })
    }
}
