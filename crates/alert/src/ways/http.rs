//! Requests to webhooks: HTTP/1.1 over TCP or TLS, one at a time, with one deadline. Redirections
//! are not followed: a signed request goes to the server that was configured, and to no other.

use std::io;
use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use ring::hmac;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::message::Request;
use super::trust;
use model::way::{HeartbeatSpec, Secret, WebhookSpec};

/// Longest time of a request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most bytes of an answer that are shown.
const MAX_SHOWN: usize = 200;

/// Headers of a signed request: the time in seconds since 1970, and the signature.
const TIME: &str = "sandstone-timestamp";
const SIGNATURE: &str = "sandstone-signature";

/// Posts a request, and returns once the server has taken it.
///
/// # Errors
/// The server cannot be reached, is not trusted, or refuses: in words, without secrets.
pub(super) fn post(webhook: &WebhookSpec, request: Request) -> Result<(), String> {
    let mut headers = request.headers;
    headers.push(("content-type", "application/json".to_owned()));
    if let Some(key) = &webhook.key {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let time_s = since.unwrap_or_default().as_secs();
        headers.push((TIME, time_s.to_string()));
        headers.push((SIGNATURE, signature(key, time_s, &request.body)));
    }
    let ca = webhook.ca.as_deref();
    send(Method::POST, &request.url, &headers, request.body, ca)
}

/// Tells the outside that this machine lives.
///
/// # Errors
/// Those of [`post`].
pub(super) fn beat(heartbeat: &HeartbeatSpec) -> Result<(), String> {
    let ca = heartbeat.ca.as_deref();
    send(Method::GET, &heartbeat.url.0, &[], Vec::new(), ca)
}

/// Returns the signature of a body: `v1=` and the HMAC-SHA256, in hexadecimal digits, of the time,
/// a dot and the body.
fn signature(key: &Secret, time_s: u64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.0.as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(format!("{time_s}.").as_bytes());
    context.update(body);
    let tag = context.sign();
    let digits = tag.as_ref().iter().map(|byte| format!("{byte:02x}"));
    format!("v1={}", digits.collect::<String>())
}

fn send(
    method: Method,
    url: &str,
    headers: &[(&'static str, String)],
    body: Vec<u8>,
    ca: Option<&str>,
) -> Result<(), String> {
    let uri: Uri = url.parse().map_err(|_| "its address is not valid")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let exchange = exchange(method, &uri, headers, body, ca);
        match tokio::time::timeout(PATIENCE, exchange).await {
            Ok(done) => done,
            Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
        }
    })
}

async fn exchange(
    method: Method,
    uri: &Uri,
    headers: &[(&'static str, String)],
    body: Vec<u8>,
    ca: Option<&str>,
) -> Result<(), String> {
    let host = uri.host().ok_or("its address has no host")?;
    let host = host.trim_matches(['[', ']']);
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let failed = |doing: &str, error: io::Error| format!("{doing} {host}:{port}: {error}");
    let tcp = TcpStream::connect((host, port)).await;
    let tcp = tcp.map_err(|error| failed("cannot connect to", error))?;
    if !is_tls {
        return over(tcp, method, uri, headers, body).await;
    }
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| format!("{host} is not a name that a certificate can have"))?;
    let tls = TlsConnector::from(trust::tls(ca)?).connect(name, tcp).await;
    let tls = tls.map_err(|error| failed("TLS cannot begin with", error))?;
    over(tls, method, uri, headers, body).await
}

async fn over<S>(
    stream: S,
    method: Method,
    uri: &Uri,
    headers: &[(&'static str, String)],
    body: Vec<u8>,
) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| format!("the connection broke: {error}");
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(broken)?;
    tokio::spawn(connection);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let mut request = hyper::Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, authority)
        .header(USER_AGENT, concat!("sandstone/", env!("CARGO_PKG_VERSION")));
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let request = request.body(Full::new(Bytes::from(body)));
    // The error would show the value of a header, which may be a token.
    let request = request.map_err(|_| "its token holds letters that no header can")?;
    let answer = sender.send_request(request).await.map_err(broken)?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let kind = answer.headers().get(CONTENT_TYPE);
    let is_page = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    let body = http_body_util::Limited::new(answer.into_body(), 64 << 10);
    let said = body.collect().await.map(|body| body.to_bytes());
    let said = said.ok().filter(|_| !is_page);
    Err(refusal(status, said.as_deref().unwrap_or_default()))
}

/// Describes the refusal of a server.
fn refusal(status: StatusCode, said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let visible = text.chars().filter(|letter| !letter.is_control());
    let shown: String = visible.take(MAX_SHOWN).collect();
    match shown.trim() {
        "" => format!("the server answers {status}"),
        shown => format!("the server answers {status}: {shown}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_what_other_programs_compute() {
        // printf '1795320306.{"a":1}' | openssl dgst -sha256 -hmac 'sixteen bytes key'
        let key = Secret("sixteen bytes key".to_owned());
        assert_eq!(
            signature(&key, 1_795_320_306, b"{\"a\":1}"),
            "v1=d24bc7b976ba1cc36e22c4a38a5d554248309eef8b25f4144de7a006f42cf2ca"
        );
    }

    #[test]
    fn a_refusal_shows_no_page_and_no_control_letters() {
        let told = refusal(StatusCode::FORBIDDEN, b"no\x1b[2J_such\r\ntoken");
        assert_eq!(told, "the server answers 403 Forbidden: no[2J_suchtoken");
        let told = refusal(StatusCode::BAD_GATEWAY, &[b'x'; 10_000]);
        assert!(told.len() < 300, "{told}");
    }
}
