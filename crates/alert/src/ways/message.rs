//! A message on its way out, in words and in the forms of the services that take it.
//!
//! Names of pools, units and initiators come from others. In each form they stand where they can be
//! no markup, no header and no mention.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::book::{News, Notice};
use model::date::utc;
use model::event::Severity;
use model::way::{WebhookFormat, WebhookSpec};

/// A message, as it waits in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Number of the message. It stays when the message is sent again.
    pub id: u64,
    /// Name of the way.
    pub way: String,
    /// Name of this machine.
    pub machine: String,
    /// Time at which the message was made, in milliseconds since 1970.
    pub made_ms: u64,
    /// News of an alert.
    pub notice: Notice,
}

impl Message {
    /// Returns the message as one line, for subjects and titles.
    pub fn title(&self) -> String {
        let alert = &self.notice.alert;
        let machine = &self.machine;
        let what = format!("{} {}", alert.condition, alert.object);
        match self.notice.news {
            News::Opened => format!("[{machine}] {}: {what}", alert.severity.as_str()),
            News::StillOpen => format!("[{machine}] still {}: {what}", alert.severity.as_str()),
            News::Ended => format!("[{machine}] ended: {what}"),
            News::Test => format!("[{machine}] test of the way {}", self.way),
        }
    }

    /// Returns the lines of the message.
    pub fn lines(&self) -> Vec<String> {
        let alert = &self.notice.alert;
        let made = utc(self.made_ms / 1000);
        if self.notice.news == News::Test {
            let text = "This is a test: alerts of this machine arrive here.";
            return vec![text.to_owned(), format!("Sent {made}.")];
        }
        let since = utc(alert.since_ms / 1000);
        let mut lines = vec![alert.text.clone()];
        match (self.notice.news, alert.ended_ms) {
            (News::Ended, Some(ended_ms)) => {
                let ended = utc(ended_ms / 1000);
                lines.insert(0, "This no longer holds:".to_owned());
                lines.push(format!("It lasted from {since} to {ended}."));
            }
            _ => {
                lines.push(format!("Next: {}", alert.next));
                lines.push(format!("Since {since}."));
                let number = alert.number;
                lines.push(format!(
                    "Alert {number}: sandstone alert show {number}, sandstone alert ack {number}"
                ));
            }
        }
        lines
    }

    /// Returns the request by which a webhook gets the message.
    pub(super) fn request(&self, webhook: &WebhookSpec) -> Request {
        let url = webhook.url.0.as_str();
        let mut headers = Vec::new();
        let token = webhook.token.as_ref().map(|token| token.0.as_str());
        let (url, body) = match webhook.format {
            WebhookFormat::Json => (url.to_owned(), self.json()),
            WebhookFormat::Slack => (url.to_owned(), json!({"text": self.slack()})),
            WebhookFormat::Teams => (url.to_owned(), self.teams()),
            WebhookFormat::Ntfy => {
                let (base, topic) = url.rsplit_once('/').unwrap_or((url, ""));
                (format!("{base}/"), self.ntfy(topic))
            }
            WebhookFormat::Gotify => {
                let base = url.trim_end_matches('/').trim_end_matches("/message");
                (format!("{base}/message"), self.gotify())
            }
        };
        match (webhook.format, token) {
            (_, None) => {}
            (WebhookFormat::Gotify, Some(token)) => {
                headers.push(("x-gotify-key", token.to_owned()));
            }
            (_, Some(token)) => headers.push(("authorization", format!("Bearer {token}"))),
        }
        Request {
            url,
            headers,
            body: body.to_string().into_bytes(),
        }
    }

    fn json(&self) -> Value {
        json!({
            "id": self.id,
            "machine": self.machine,
            "time_ms": self.made_ms,
            "news": self.notice.news,
            "title": self.title(),
            "alert": self.notice.alert,
        })
    }

    fn slack(&self) -> String {
        let text = format!("*{}*\n{}", self.title(), self.lines().join("\n"));
        // The three letters that begin markup and mentions.
        text.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    }

    /// Returns a card of plain runs of text: Teams reads no markup in them.
    fn teams(&self) -> Value {
        let run = |text: String, weight: &str| {
            json!({
                "type": "RichTextBlock",
                "inlines": [{"type": "TextRun", "text": text, "weight": weight}],
            })
        };
        let mut body = vec![run(self.title(), "Bolder")];
        body.extend(self.lines().into_iter().map(|line| run(line, "Default")));
        json!({
            "type": "message",
            "attachments": [{
                "contentType": "application/vnd.microsoft.card.adaptive",
                "content": {
                    "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                    "type": "AdaptiveCard",
                    "version": "1.4",
                    "body": body,
                },
            }],
        })
    }

    fn ntfy(&self, topic: &str) -> Value {
        json!({
            "topic": topic,
            "title": self.title(),
            "message": self.lines().join("\n"),
            "priority": self.priority([2, 3, 4, 5]),
            "tags": [self.notice.alert.condition],
        })
    }

    fn gotify(&self) -> Value {
        json!({
            "title": self.title(),
            "message": self.lines().join("\n"),
            "priority": self.priority([2, 5, 7, 10]),
        })
    }

    /// Returns a priority: for good news, warnings, errors and critical alerts.
    fn priority(&self, [good, warning, error, critical]: [u8; 4]) -> u8 {
        match (self.notice.news, self.notice.alert.severity) {
            (News::Ended | News::Test, _) | (_, Severity::Info) => good,
            (_, Severity::Warning) => warning,
            (_, Severity::Error) => error,
            (_, Severity::Critical) => critical,
        }
    }
}

/// A request to a webhook.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) url: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::alert::AlertView;
    use model::way::Secret;

    const HOSTILE: &str = "x\"}],\r\nBcc: a@b\u{1b}<!channel> & [a](http://b) *b*";

    fn message(news: News) -> Message {
        Message {
            id: 7,
            way: "desk".to_owned(),
            machine: "san1".to_owned(),
            made_ms: 1_795_320_306_000,
            notice: Notice {
                news,
                alert: AlertView {
                    number: 3,
                    condition: "pool-degraded".to_owned(),
                    object: HOSTILE.to_owned(),
                    severity: Severity::Error,
                    text: HOSTILE.to_owned(),
                    next: "see to it".to_owned(),
                    since_ms: 1_795_320_000_000,
                    ended_ms: (news == News::Ended).then_some(1_795_320_300_000),
                    ..AlertView::default()
                },
            },
        }
    }

    fn body(format: WebhookFormat, url: &str) -> (Request, Value) {
        let webhook = WebhookSpec {
            url: Secret(url.to_owned()),
            format,
            token: Some(Secret("tok".to_owned())),
            ..WebhookSpec::default()
        };
        let request = message(News::Opened).request(&webhook);
        let json = serde_json::from_slice(&request.body).unwrap();
        (request, json)
    }

    #[test]
    fn json_holds_all_whatever_the_names_are() {
        let (request, json) = body(WebhookFormat::Json, "https://a/b");
        assert_eq!(request.url, "https://a/b");
        assert_eq!(json["alert"]["object"], HOSTILE);
        assert_eq!(json["news"], "opened");
        assert_eq!(
            request.headers,
            [("authorization", "Bearer tok".to_owned())]
        );
    }

    #[test]
    fn slack_sees_neither_mentions_nor_links() {
        let (_, json) = body(WebhookFormat::Slack, "https://a/b");
        let text = json["text"].as_str().unwrap();
        assert!(!text.contains(['<', '>']), "{text}");
        assert!(text.contains("&lt;!channel&gt; &amp;"), "{text}");
        assert_eq!(json.as_object().unwrap().len(), 1);
    }

    #[test]
    fn teams_gets_plain_runs() {
        let (_, json) = body(WebhookFormat::Teams, "https://a/b");
        let card = &json["attachments"][0]["content"];
        assert_eq!(card["type"], "AdaptiveCard");
        let blocks = card["body"].as_array().unwrap();
        assert!(blocks.len() > 3);
        assert!(blocks.iter().all(|it| it["type"] == "RichTextBlock"));
        assert_eq!(blocks[1]["inlines"][0]["text"], HOSTILE);
    }

    #[test]
    fn ntfy_and_gotify_get_their_addresses_and_tokens() {
        let (request, json) = body(WebhookFormat::Ntfy, "https://ntfy.example/x/san");
        assert_eq!(request.url, "https://ntfy.example/x/");
        assert_eq!(
            (&json["topic"], &json["priority"]),
            (&json!("san"), &json!(4))
        );
        for url in ["https://g/", "https://g", "https://g/message"] {
            let (request, json) = body(WebhookFormat::Gotify, url);
            assert_eq!(request.url, "https://g/message");
            assert_eq!(request.headers, [("x-gotify-key", "tok".to_owned())]);
            assert_eq!(json["priority"], 7);
        }
    }

    #[test]
    fn an_end_says_how_long_it_lasted() {
        let lines = message(News::Ended).lines().join("\n");
        assert!(lines.starts_with("This no longer holds:"), "{lines}");
        assert!(lines.contains("2026-11-22 04:00:00 UTC to 2026-11-22 04:05:00 UTC"));
        assert!(
            message(News::Ended)
                .title()
                .starts_with("[san1] ended: pool-degraded")
        );
    }
}
