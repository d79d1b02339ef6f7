//! A daemon as a process, with a console over TLS, a pool, and one object of each kind; and a
//! browser that trusts its certificate.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use console::Known;
use initiator::connection::Connection;
use iscsi::initiator::LoginSettings;
use iscsi::pdu::Isid;
use model::access::Role;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use testing::wait;

use super::html::{coded, tags};

/// Name of the target.
pub(crate) const TARGET: &str = "iqn.2026-01.io.sandstone:test";
/// Longest time that a test waits for the daemon.
const PATIENCE: Duration = Duration::from_secs(60);
/// Password of all users.
pub(crate) const PASSWORD: &str = "four words are long";

/// Author of a request.
#[derive(Clone, Debug)]
pub(crate) enum Who {
    Nobody,
    Token(String),
    Cookie(String),
}

/// Answer to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| {
            let (of, value) = line.split_once(": ")?;
            of.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Returns the text of a page; an empty one for anything else.
    pub(crate) fn page(&self) -> &str {
        let kind = self.header("content-type").unwrap_or_default();
        match kind.starts_with("text/html") {
            true => &self.body,
            false => "",
        }
    }

    /// Returns the secret of the login that the answer sets.
    pub(crate) fn login(&self) -> Option<String> {
        let start = format!("{}=", control::COOKIE_NAME);
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let cookie = lines.find_map(|(_, value)| value.strip_prefix(&start))?;
        cookie.split(';').next().map(str::to_owned)
    }
}

/// Daemon of a test.
pub(crate) struct Site {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) child: Child,
    /// Address of the console.
    pub(crate) console: SocketAddr,
    /// Address of the metrics.
    pub(crate) metrics: SocketAddr,
    /// Portal of the target.
    pub(crate) portal: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Site {
    /// Starts a daemon without any object.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let metrics = free_portal();
        let (child, console) = begin(folder.path(), metrics);
        Self {
            tls: trusting(&folder.path().join("state/tls/cert.pem")),
            folder,
            child,
            console,
            metrics,
            portal: free_portal(),
        }
    }

    /// Kills the daemon, and starts it again with its state.
    pub(crate) fn kill_and_start(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (self.child, self.console) = begin(self.folder.path(), self.metrics);
    }

    /// Starts a daemon with one object of each kind, and a session.
    pub(crate) fn with_one_of_each() -> (Self, Connection) {
        let site = Self::start();
        let portal = site.portal;
        for line in [
            "pool create --size 256M tank a",
            "volume create tank/pve",
            "volume create -s -V 16M tank/pve/own",
            "volume create -s -V 16M tank/house",
            "volume snapshot tank/house@monday",
            "volume hold keep tank/house@monday",
            "lu create vmhouse --volume tank/house",
            &format!("target create {TARGET} --portal {portal}"),
            "host create everest --initiator iqn.2026-01.io.sandstone:*",
            &format!("map add vmhouse --host everest --target {TARGET} --lun 0"),
            "role set ann operator",
            "token add listed --role viewer",
        ] {
            site.done(line);
        }
        site.add_user("ann", Role::Viewer);
        let session = Connection::open(portal, settings(1)).unwrap();
        (site, session)
    }

    /// Returns the state folder.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Returns the log so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Runs the command line as root or the user of the test.
    pub(crate) fn run(&self, line: &str) -> Output {
        let words: Vec<&str> = line.split_whitespace().collect();
        sandstone(&self.state(), self.folder.path(), &words)
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn done(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Adds a user of the console.
    pub(crate) fn add_user(&self, name: &str, role: Role) {
        let file = self.folder.path().join("password");
        fs::write(&file, PASSWORD).unwrap();
        self.done(&format!(
            "user add {name} --role {role} --password-file {}",
            file.display()
        ));
    }

    /// Returns a new token.
    pub(crate) fn token(&self, name: &str, options: &str) -> Who {
        let text = self.done(&format!("token add {name} {options}"));
        Who::Token(text.trim().to_owned())
    }

    /// Logs a user in.
    pub(crate) fn log_in(&self, name: &str) -> Who {
        let reply = self.try_in(name, PASSWORD, &Who::Nobody);
        Who::Cookie(reply.login().unwrap_or_else(|| panic!("{reply:?}")))
    }

    /// Tries to log in, as soon as the daemon takes another attempt.
    pub(crate) fn try_in(&self, name: &str, password: &str, who: &Who) -> Reply {
        let form = format!("name={}&password={}", coded(name), coded(password));
        let reply = || self.post("/login", who, &form);
        wait::until_seen("it may try", reply, |reply| reply.status != 429)
    }

    /// Asks for a page as a browser does.
    pub(crate) fn get(&self, path: &str, who: &Who) -> Reply {
        self.send("GET", path, who, &[("accept", "text/html")], "")
    }

    /// Sends a form from a page of the console.
    pub(crate) fn post(&self, path: &str, who: &Who, form: &str) -> Reply {
        let headers = [
            ("sec-fetch-site", "same-origin"),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        self.send("POST", path, who, &headers, form)
    }

    /// Sends a request over a connection of its own.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        who: &Who,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let mut head = format!("{method} {path} HTTP/1.0\r\nhost: {}\r\n", self.console);
        match who {
            Who::Nobody => {}
            Who::Token(token) => head += &format!("authorization: Bearer {token}\r\n"),
            Who::Cookie(secret) => {
                head += &format!("cookie: {}={secret}\r\n", control::COOKIE_NAME)
            }
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() || method != "GET" {
            head += &format!("content-length: {}\r\n", body.len());
        }
        let mut stream = self.connect();
        stream
            .write_all(format!("{head}\r\n{body}").as_bytes())
            .unwrap();
        reply(&mut stream)
    }

    /// Opens a connection with TLS.
    pub(crate) fn connect(&self) -> StreamOwned<ClientConnection, TcpStream> {
        self.shake_hands(TcpStream::connect(self.console).unwrap())
    }

    /// Begins TLS on a connection.
    pub(crate) fn shake_hands(
        &self,
        stream: TcpStream,
    ) -> StreamOwned<ClientConnection, TcpStream> {
        self.shake_hands_by(stream, b"http/1.1")
    }

    /// Begins TLS on a connection, for this protocol within it.
    pub(crate) fn shake_hands_by(
        &self,
        stream: TcpStream,
        protocol: &[u8],
    ) -> StreamOwned<ClientConnection, TcpStream> {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let name = ServerName::from(self.console.ip());
        let mut tls = ClientConfig::clone(&self.tls);
        tls.alpn_protocols = vec![protocol.to_vec()];
        let client = ClientConnection::new(Arc::new(tls), name).unwrap();
        StreamOwned::new(client, stream)
    }

    /// Returns all pages that can be reached by links, each with its address. Of addresses that
    /// differ only in their queries, and of objects of one kind, some are enough.
    pub(crate) fn crawl(&self, who: &Who) -> Vec<(String, Reply)> {
        let known = console::known();
        let mut queue: VecDeque<String> = ["/".to_owned(), "/me".to_owned()].into();
        let mut seen = BTreeSet::new();
        let mut visits: Vec<((&'static str, bool), usize)> = Vec::new();
        let mut pages = Vec::new();
        while let Some(address) = queue.pop_front() {
            if !seen.insert(address.clone()) {
                continue;
            }
            let template = route(&known, "GET", &address).map_or("", |it| it.path);
            let kind = (template, address.contains("format="));
            match visits.iter_mut().find(|(of, _)| *of == kind) {
                Some((_, count)) if *count >= 5 => continue,
                Some((_, count)) => *count += 1,
                None => visits.push((kind, 1)),
            }
            let reply = self.get(&address, who);
            for tag in tags(reply.page()) {
                let link = match tag.name.as_str() {
                    "a" => tag.get("href"),
                    "form" if tag.get("method").is_none() => tag.get("action"),
                    _ => None,
                };
                let path = address.split('?').next().unwrap_or_default();
                let link = link.map(|it| match it.split('#').next().unwrap_or_default() {
                    query if query.starts_with('?') => format!("{path}{query}"),
                    link => link.to_owned(),
                });
                if let Some(link) = link.filter(|it| it.starts_with('/')) {
                    queue.push_back(link);
                }
            }
            pages.push((address, reply));
        }
        pages
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // The daemon may have ended already.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

/// Returns the login settings of initiator port `port`.
pub(crate) fn settings(port: u8) -> LoginSettings {
    LoginSettings::new(
        "iqn.2026-01.io.sandstone:tester",
        Some(TARGET.to_owned()),
        Isid([0x80, 0, 0, 0, 0, port]),
    )
}

/// Starts a daemon in a folder, and returns it with the address of its console.
fn begin(folder: &Path, metrics: SocketAddr) -> (Child, SocketAddr) {
    let state = folder.join("state");
    let mut log = File::options();
    let log = log.create(true).append(true).open(folder.join("log"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .args([
            "serve",
            "--log",
            "debug",
            "--cache",
            "64M",
            "--console",
            "127.0.0.1:0",
            "--metrics",
        ])
        .arg(metrics.to_string())
        .arg("--state")
        .arg(&state)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.unwrap())
        .spawn()
        .unwrap();
    let address = wait::until_ok("the console has an address", || {
        let told = sandstone(&state, folder, &["status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap_or_default();
        let url = status["console"]["url"].as_str().unwrap_or_default();
        if let Some(address) = url.strip_prefix("https://") {
            return Ok(address.parse().unwrap());
        }
        assert_eq!(child.try_wait().unwrap(), None, "{told:?}");
        Err(told)
    });
    (child, address)
}

/// Returns an address on which nothing listens. Its port is below those that the kernel gives to
/// outgoing connections.
fn free_portal() -> SocketAddr {
    loop {
        let number = getrandom::u32().unwrap() % 20_000;
        let portal = SocketAddr::from((Ipv4Addr::LOCALHOST, 10_000 + number as u16));
        if TcpListener::bind(portal).is_ok() {
            return portal;
        }
    }
}

/// Returns the route that serves an address.
pub(crate) fn route<'a>(known: &'a [Known], method: &str, address: &str) -> Option<&'a Known> {
    let path = address.split('?').next().unwrap_or_default();
    let is_of = |route: &&Known| {
        let (own, asked) = (route.path.split('/'), path.split('/'));
        route.method == method
            && own.clone().count() == asked.clone().count()
            && own
                .zip(asked)
                .all(|(own, asked)| own.starts_with('{') || own == asked)
    };
    // A route without arguments is preferred, as the router does it.
    let mut all: Vec<&Known> = known.iter().filter(is_of).collect();
    all.sort_by_key(|route| route.path.matches('{').count());
    all.into_iter().next()
}

/// Reads an answer to its end.
pub(crate) fn reply(stream: &mut impl std::io::Read) -> Reply {
    let mut bytes = Vec::new();
    // The end of the connection may come without a closure alert.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
    Reply {
        status: status.unwrap_or(0),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

fn sandstone(state: &Path, folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .arg("--state")
        .arg(state)
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn trusting(certificate: &Path) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(certificate).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}
