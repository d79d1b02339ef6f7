//! `initiator attach`: serves a block device over NBD until Ctrl-C.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use backends::locate;
use block::budget::DEFAULT_MEMORY_CAP;
use cli::attach::{Args, Tls};
use cli::serve::{catch_signals, failed};
use cli::{Connection, configured};
use hint::Place;
use model::quantity::format_size;
use model::{Error, ErrorKind};
use nbd_server::{Endpoint, Loops, Server, ServerOptions, StartError, TlsOptions};
use process::log::Format;
use unit::unit::Unit;

/// Line of `--json`.
#[derive(Debug, Serialize)]
struct Attached {
    /// First of `uris`.
    uri: String,
    uris: Vec<String>,
    size: u64,
    block_size: u32,
    read_only: bool,
}

/// Serves until Ctrl-C or SIGTERM.
pub(crate) fn run(args: &Args, connection: &Connection) -> ExitCode {
    process::log::begin(if args.json { "warn" } else { "info" }, Format::Text);
    // The signals are caught before the socket exists, so that it never stays behind.
    let signals = match catch_signals() {
        Ok(signals) => signals,
        Err(error) => return failed(&error),
    };
    match attach(args, connection) {
        Ok((server, attached)) => {
            if args.json {
                println!("{}", serde_json::json!(attached));
            } else {
                announce(args, &server, &attached);
            }
            signals.wait();
            process::log::flush();
            server.stop();
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

fn attach(args: &Args, connection: &Connection) -> Result<(Server, Attached), Error> {
    let system = |error: std::io::Error| refused(StartError::System(error));
    let mut loops = Loops::prepare(args.threads.get(), !args.no_io_uring).map_err(system)?;
    let configured = configured(&args.what, connection)?;
    let lane = loops.first_lane();
    let device = locate::open(&args.what, args.block_size, &configured, lane).map_err(|error| {
        let next = error.next().to_owned();
        Error::new(ErrorKind::Unavailable, error.message(), next)
    })?;
    let geometry = device.geometry();
    let socket = args.socket.clone().map(Endpoint::Unix);
    let options = ServerOptions {
        name: args.name.clone(),
        description: format!(
            "{}, {}",
            locate::shown(&args.what),
            format_size(geometry.len)
        ),
        read_only: args.read_only,
        endpoints: socket
            .into_iter()
            .chain(args.listen.map(Endpoint::Tcp))
            .collect(),
        tls: args
            .tls_certificates
            .clone()
            .map(|certificates| TlsOptions {
                certificates,
                require: args.tls != Some(Tls::Allow),
                verify_clients: args.tls_verify_clients,
            }),
        memory_cap: args.memory_cap.unwrap_or(DEFAULT_MEMORY_CAP),
        max_connections: args.max_connections,
    };
    let unit = Unit::alone(locate::shown(&args.what).to_owned(), device);
    let server = Server::start(loops, unit, &options).map_err(refused)?;
    let uris: Vec<String> = server
        .endpoints()
        .iter()
        .map(|endpoint| uri(endpoint, args))
        .collect();
    let attached = Attached {
        uri: uris.first().cloned().unwrap_or_default(),
        uris,
        size: geometry.len,
        block_size: geometry.granularity,
        read_only: args.read_only,
    };
    Ok((server, attached))
}

fn refused(error: StartError) -> Error {
    let next = match &error {
        StartError::Listen(error) => error.next(),
        StartError::Tls(_) => "make PEM certificates, as the manual of nbdkit-tls shows".to_owned(),
        StartError::System(error) => Place::Process.next(error),
    };
    Error::new(ErrorKind::Unavailable, error.to_string(), next)
}

/// Returns the URI of an endpoint, as the NBD project defines it (`doc/uri.md`).
fn uri(endpoint: &Endpoint, args: &Args) -> String {
    let scheme = match args.tls_certificates {
        Some(_) => "nbds",
        None => "nbd",
    };
    match endpoint {
        Endpoint::Unix(path) => {
            let name = &args.name;
            format!(
                "{scheme}+unix:///{name}?socket={}",
                escaped(&absolute(path))
            )
        }
        Endpoint::Tcp(address) if args.name.is_empty() => format!("{scheme}://{address}"),
        Endpoint::Tcp(address) => format!("{scheme}://{address}/{}", args.name),
    }
}

/// Returns an absolute path, which holds in any folder that a client is started from.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns a path, escaped for a URI's query.
fn escaped(path: &Path) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
    let mut text = String::new();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn announce(args: &Args, server: &Server, attached: &Attached) {
    let read_only = if args.read_only { ", read-only" } else { "" };
    println!(
        "Offering {} ({}, blocks of {}{read_only}) as",
        locate::shown(&args.what),
        format_size(attached.size),
        attached.block_size
    );
    for uri in &attached.uris {
        println!("    {uri}");
    }
    println!();
    let first = server.endpoints().first().zip(attached.uris.first());
    if let Some((endpoint, uri)) = first {
        println!("{}", instructions(args, endpoint, uri, attached.block_size));
    }
    println!("Ctrl-C ends it.");
}

/// Returns the lines to type on this machine.
fn instructions(args: &Args, endpoint: &Endpoint, uri: &str, block_size: u32) -> String {
    let certificates = args.tls_certificates.as_deref().map(absolute);
    let (url, image) = match &certificates {
        None => (uri.to_owned(), format!("'{uri}'")),
        Some(folder) => {
            let mark = if uri.contains('?') { '&' } else { '?' };
            let url = format!("{uri}{mark}tls-certificates={}", escaped(folder));
            (
                url,
                format!("--image-opts '{}'", image_options(args, endpoint)),
            )
        }
    };
    let credentials = match &certificates {
        None => String::new(),
        Some(folder) => format!(
            "--object tls-creds-x509,id=tls0,endpoint=client,dir='{}' ",
            folder.display()
        ),
    };
    let (cache, rw) = match args.read_only {
        true => ("readonly=on", "randread"),
        false => ("cache=none,discard=unmap", "randrw"),
    };
    let drive = match &certificates {
        None => format!("file='{uri}',format=raw"),
        Some(_) => format!("'{},format=raw'", image_options(args, endpoint)),
    };
    let mut text = format!(
        "Look at it:\n    nbdinfo '{url}'\n\
         Copy it out:\n    nbdcopy --progress '{url}' disk.img\n\
         QEMU:\n    qemu-img info {credentials}{image}\n    \
         qemu-system-x86_64 {credentials}-drive {drive},if=virtio,{cache}\n\
         fio:\n    fio --name=nbd --ioengine=nbd --uri='{url}' --rw={rw} --bs=4k --iodepth=32 \
         --time_based --runtime=10\n"
    );
    let name = match args.name.as_str() {
        "" => String::new(),
        name => format!(" -N {name}"),
    };
    let place = match endpoint {
        Endpoint::Unix(path) => format!("-unix {} /dev/nbd0", absolute(path).display()),
        Endpoint::Tcp(address) => format!("{} {} /dev/nbd0", address.ip(), address.port()),
    };
    let secure = match &certificates {
        None => String::new(),
        Some(folder) => format!(" -x -A {}", folder.join("ca-cert.pem").display()),
    };
    text.push_str(&format!(
        "Linux (root, module nbd; then /dev/nbd0 is a disk):\n    \
         nbd-client {place}{name} -b {block_size} -persist{secure}\n"
    ));
    text
}

/// Returns a drive in the form of QEMU's options, because its URIs know nothing of TLS.
fn image_options(args: &Args, endpoint: &Endpoint) -> String {
    let server = match endpoint {
        Endpoint::Unix(path) => format!(
            "server.type=unix,server.path={},tls-hostname=localhost",
            absolute(path).display()
        ),
        Endpoint::Tcp(address) => {
            let (host, port) = (address.ip(), address.port());
            format!("server.type=inet,server.host={host},server.port={port}")
        }
    };
    let name = match args.name.as_str() {
        "" => String::new(),
        name => format!(",export={name}"),
    };
    format!("driver=nbd,{server},tls-creds=tls0{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_written_as_others_read_them() {
        assert_eq!(
            escaped(Path::new("/run/a b&c?#%.sock")),
            "/run/a%20b%26c%3F%23%25.sock"
        );
        let secret = "iscsi://user%secret@host:3260/iqn.x/0?target_password=other";
        assert_eq!(locate::shown(secret), "iscsi://host:3260/iqn.x/0");
        assert_eq!(locate::shown("a@b.img"), "a@b.img");
    }
}
