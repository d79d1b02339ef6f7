//! Mail: one message for each news, over SMTP with STARTTLS or TLS.
//!
//! Texts that others chose go into the body and, without control characters, into the subject. The
//! library encodes both; no text becomes a header of its own.

use std::time::{Duration, SystemTime};

use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, SmtpTransport, Transport as _};

use super::message::Message;
use super::trust;
use model::way::{MailSpec, MailTls};

/// Longest time of one step of the exchange.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most letters of a subject.
const MAX_SUBJECT: usize = 200;

/// Header that keeps other machines from answering: no vacation notes, no bounces in circles.
#[derive(Clone, Debug)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

/// Sends a message, and returns once the server has taken it.
///
/// # Errors
/// The server cannot be reached, is not trusted, or refuses: in words, without secrets.
pub(super) fn send(mail: &MailSpec, message: &Message) -> Result<(), String> {
    let letter = letter(mail, message)?;
    let transport = transport(mail, &message.machine)?;
    let sent = transport.send(&letter);
    sent.map(drop).map_err(|error| in_words(&error))
}

/// Returns the error with its causes, which name the reason.
fn in_words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !words.contains(&more) {
            words.push_str(": ");
            words.push_str(&more);
        }
        cause = inner.source();
    }
    plain(&words)
}

fn letter(mail: &MailSpec, message: &Message) -> Result<lettre::Message, String> {
    let subject: String = plain(&message.title()).chars().take(MAX_SUBJECT).collect();
    let lines: Vec<String> = message.lines().iter().map(|line| plain(line)).collect();
    let made = SystemTime::UNIX_EPOCH + Duration::from_millis(message.made_ms);
    let Message { id, made_ms, .. } = message;
    let domain = mail.from.rsplit('@').next().unwrap_or_default();
    let mut builder = MessageBuilder::new()
        .from(mailbox(&mail.from)?)
        .subject(subject)
        .date(made)
        // A message that is sent again has the same number: readers see it once.
        .message_id(Some(format!("<sandstone-{id}-{made_ms}@{domain}>")))
        .header(AutoSubmitted)
        .header(ContentType::TEXT_PLAIN);
    for to in &mail.to {
        builder = builder.to(mailbox(to)?);
    }
    let text = format!("{}\n", lines.join("\n\n"));
    builder.body(text).map_err(|error| error.to_string())
}

fn mailbox(address: &str) -> Result<Mailbox, String> {
    let parsed: Result<Address, _> = address.parse();
    let parsed = parsed.map_err(|error| format!("{address} is not an address: {error}"))?;
    Ok(Mailbox::new(None, parsed))
}

/// Returns a text without control characters: it stays on its line.
fn plain(text: &str) -> String {
    let visible = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().map(visible).collect()
}

fn transport(mail: &MailSpec, machine: &str) -> Result<SmtpTransport, String> {
    let (host, port) = server(&mail.server);
    let tls = match mail.tls {
        MailTls::None => Tls::None,
        MailTls::Starttls => Tls::Required(parameters(host, mail.ca.as_deref())?),
        MailTls::Tls => Tls::Wrapper(parameters(host, mail.ca.as_deref())?),
    };
    let mut builder = SmtpTransport::builder_dangerous(host)
        .port(port.unwrap_or(mail.tls.port()))
        .tls(tls)
        .timeout(Some(PATIENCE));
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
    if !machine.is_empty() && machine.chars().all(is_name) {
        builder = builder.hello_name(ClientId::Domain(machine.to_owned()));
    }
    if let (Some(user), Some(password)) = (&mail.user, &mail.password) {
        builder = builder.credentials(Credentials::new(user.clone(), password.0.clone()));
    }
    Ok(builder.build())
}

/// Returns the host of a server, and its port if that is named.
fn server(server: &str) -> (&str, Option<u16>) {
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, port.parse().ok())
        }
        _ => (server, None),
    };
    (host.trim_matches(['[', ']']), port)
}

fn parameters(host: &str, ca: Option<&str>) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(host.to_owned());
    if let Some(path) = ca {
        builder = builder.certificate_store(CertificateStore::None);
        for certificate in trust::certificates(path)? {
            let certificate = Certificate::from_der(certificate.to_vec());
            let certificate = certificate.map_err(|error| format!("{path}: {error}"))?;
            builder = builder.add_root_certificate(certificate);
        }
    }
    builder.build().map_err(|error| in_words(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::{News, Notice};
    use model::alert::AlertView;

    #[test]
    fn hostile_names_become_no_header() {
        let hostile = "tank\r\nBcc: thief@example.org\r\n\r\nBody\u{0}ä";
        let message = Message {
            id: 1,
            way: "ops".to_owned(),
            machine: "san1".to_owned(),
            made_ms: 1_795_320_306_000,
            notice: Notice {
                news: News::Opened,
                alert: AlertView {
                    condition: "pool-degraded".to_owned(),
                    object: hostile.to_owned(),
                    text: hostile.to_owned(),
                    next: hostile.to_owned(),
                    ..AlertView::default()
                },
            },
        };
        let mail = MailSpec {
            from: "san@example.org".to_owned(),
            to: vec!["ops@example.org".to_owned()],
            ..MailSpec::default()
        };
        let letter = letter(&mail, &message).unwrap();
        let envelope = letter.envelope().to();
        assert_eq!(envelope.len(), 1);
        let text = String::from_utf8(letter.formatted()).unwrap();
        let (head, _) = text.split_once("\r\n\r\n").unwrap();
        let names = head.lines().filter(|line| !line.starts_with([' ', '\t']));
        let mut names: Vec<&str> = names.map(|line| line.split(':').next().unwrap()).collect();
        names.sort();
        let expected = [
            "Auto-Submitted",
            "Content-Transfer-Encoding",
            "Content-Type",
            "Date",
            "From",
            "MIME-Version",
            "Message-ID",
            "Subject",
            "To",
        ];
        let expected: Vec<&str> = expected
            .into_iter()
            .filter(|name| names.contains(name))
            .collect();
        assert_eq!(names, expected, "{head}");
        assert!(head.contains("Auto-Submitted: auto-generated"));
    }

    #[test]
    fn servers_have_ports() {
        assert_eq!(server("mail.example"), ("mail.example", None));
        assert_eq!(server("mail.example:2525"), ("mail.example", Some(2525)));
        assert_eq!(server("[::1]:25"), ("::1", Some(25)));
        assert_eq!(server("::1"), ("::1", None));
    }
}
