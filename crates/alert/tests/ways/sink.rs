//! Servers that take what ways send, and keep it: HTTP and SMTP, plain or over TLS.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Longest wait for bytes of a client.
const PATIENCE: Duration = Duration::from_secs(60);

/// Stream that can be read and written.
pub(crate) trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// Request that an HTTP server got.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    /// Method, path and version.
    pub(crate) first: String,
    /// Headers, by names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// Body.
    pub(crate) body: Vec<u8>,
}

impl Got {
    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(it, _)| it == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Server that keeps what it got.
pub(crate) struct Sink<T> {
    /// Address of the server.
    pub(crate) address: SocketAddr,
    got: Arc<Mutex<Vec<T>>>,
}

impl<T: Clone + Send + 'static> Sink<T> {
    /// Serves each connection on a thread of its own. The threads end with the test's process.
    pub(crate) fn start(
        listener: TcpListener,
        serve: impl Fn(TcpStream) -> std::io::Result<Vec<T>> + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let got: Arc<Mutex<Vec<T>>> = Arc::default();
        let (kept, serve) = (Arc::clone(&got), Arc::new(serve));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let (kept, serve) = (Arc::clone(&kept), Arc::clone(&serve));
                std::thread::spawn(move || {
                    // A client that goes away is not a matter of these tests.
                    if let Ok(more) = serve(stream) {
                        kept.lock().unwrap().extend(more);
                    }
                });
            }
        });
        Self { address, got }
    }

    /// Returns all that the server got.
    pub(crate) fn got(&self) -> Vec<T> {
        self.got.lock().unwrap().clone()
    }
}

/// Returns a listener on a free port.
pub(crate) fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// Begins TLS.
pub(crate) fn tls(stream: TcpStream, config: &Arc<ServerConfig>) -> impl Stream + use<> {
    let connection = ServerConnection::new(Arc::clone(config)).unwrap();
    StreamOwned::new(connection, stream)
}

/// Takes one request, and answers it by a status line.
pub(crate) fn http(mut stream: impl Stream, answer: &str) -> std::io::Result<Vec<Got>> {
    let mut reader = BufReader::new(&mut stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let len = headers.iter().find(|(name, _)| name == "content-length");
    let len = len.map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; len];
    reader.read_exact(&mut body)?;
    write!(
        stream,
        "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )?;
    stream.flush()?;
    let first = first.trim_end().to_owned();
    Ok(vec![Got {
        first,
        headers,
        body,
    }])
}

/// Mail that an SMTP server got.
#[derive(Clone, Debug)]
pub(crate) struct Mail {
    /// Commands before and behind the text.
    pub(crate) commands: Vec<String>,
    /// Header and body as they came.
    pub(crate) text: String,
    /// Whether the mail came over TLS.
    pub(crate) is_sealed: bool,
}

/// Talks SMTP until the client quits. `config` is offered as STARTTLS.
pub(crate) fn smtp(
    mut stream: TcpStream,
    config: Option<&Arc<ServerConfig>>,
) -> std::io::Result<Vec<Mail>> {
    stream.write_all(b"220 sink ESMTP\r\n")?;
    let mut commands = Vec::new();
    let mut got = Vec::new();
    let copy = stream.try_clone()?;
    if talk(
        &mut stream,
        config.is_some(),
        false,
        &mut commands,
        &mut got,
    )? {
        let mut sealed = tls(copy, config.unwrap());
        talk(&mut sealed, false, true, &mut commands, &mut got)?;
    }
    Ok(got)
}

/// Talks SMTP over TLS from the first byte on.
pub(crate) fn smtps(stream: TcpStream, config: &Arc<ServerConfig>) -> std::io::Result<Vec<Mail>> {
    let mut sealed = tls(stream, config);
    sealed.write_all(b"220 sink ESMTP\r\n")?;
    let (mut commands, mut got) = (Vec::new(), Vec::new());
    talk(&mut sealed, false, true, &mut commands, &mut got)?;
    Ok(got)
}

/// Talks until the client quits, or asks for TLS: then it returns true.
fn talk(
    stream: &mut impl Stream,
    offers_tls: bool,
    is_sealed: bool,
    commands: &mut Vec<String>,
    got: &mut Vec<Mail>,
) -> std::io::Result<bool> {
    loop {
        let line = read_line(stream)?;
        let command = line.trim_end().to_owned();
        let verb = command.split(' ').next().unwrap_or_default().to_uppercase();
        commands.push(command);
        let answer: &[u8] = match verb.as_str() {
            "EHLO" if offers_tls => b"250-sink\r\n250-STARTTLS\r\n250 8BITMIME\r\n",
            "EHLO" => b"250-sink\r\n250-AUTH PLAIN LOGIN\r\n250 8BITMIME\r\n",
            "STARTTLS" => {
                stream.write_all(b"220 go on\r\n")?;
                stream.flush()?;
                return Ok(true);
            }
            "AUTH" => b"235 welcome\r\n",
            "DATA" => {
                stream.write_all(b"354 go on\r\n")?;
                stream.flush()?;
                let mut text = String::new();
                loop {
                    let line = read_line(stream)?;
                    if line == ".\r\n" {
                        break;
                    }
                    text.push_str(&line);
                }
                got.push(Mail {
                    commands: commands.clone(),
                    text,
                    is_sealed,
                });
                b"250 taken\r\n"
            }
            "QUIT" => {
                stream.write_all(b"221 bye\r\n")?;
                stream.flush()?;
                return Ok(false);
            }
            _ => b"250 fine\r\n",
        };
        stream.write_all(answer)?;
        stream.flush()?;
    }
}

/// Reads a line byte by byte: nothing behind it may be taken from a stream that changes to TLS.
fn read_line(stream: &mut impl Stream) -> std::io::Result<String> {
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
        if byte == *b"\n" {
            return Ok(String::from_utf8_lossy(&line).into_owned());
        }
    }
}
