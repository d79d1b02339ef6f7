//! `initiator attach`: the options of the NBD server. The program brings the server.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

use clap::{ArgGroup, Args as ClapArgs, ValueEnum};

use super::super::demo::block_size;
use crate::grammar::completion::size;

/// Port that is registered for the protocol.
const NBD_PORT: u16 = 10809;

/// Options that name the device to offer, and the address to offer it at.
#[derive(Clone, Debug, ClapArgs)]
#[command(group(ArgGroup::new("where").args(["socket", "listen"]).required(true).multiple(true)))]
pub struct Args {
    /// File, block device, memory:SIZE,
    /// iscsi://[user%secret@]host[:port]/target/lun[?option=value&…], or a device of `initiator
    /// device list`: naa.…[?option=value&…]
    pub what: String,
    /// Listen on a unix socket at this path, which only its owner may open
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Listen on this TCP address; anybody who reaches it may read and write
    #[arg(long, value_name = "HOST[:PORT]", value_parser = address)]
    pub listen: Option<SocketAddr>,
    /// Name of the export, which is also the default export
    #[arg(long, value_name = "NAME", default_value = "", value_parser = export_name)]
    pub name: String,
    /// Refuse writes
    #[arg(long)]
    pub read_only: bool,
    /// Logical block size [default: that of the device, or 512]
    #[arg(long, value_name = "512|4096", value_parser = block_size)]
    pub block_size: Option<u32>,
    /// Folder with server-cert.pem and server-key.pem, for TLS
    #[arg(long, value_name = "DIR")]
    pub tls_certificates: Option<PathBuf>,
    /// Whether clients must use TLS [default: require]
    #[arg(
        long,
        value_enum,
        value_name = "require|allow",
        requires = "tls_certificates"
    )]
    pub tls: Option<Tls>,
    /// Accept only clients with a certificate that ca-cert.pem of that folder signed
    #[arg(long, requires = "tls_certificates", conflicts_with = "tls")]
    pub tls_verify_clients: bool,
    /// Event loops
    #[arg(long, value_name = "N", default_value = "1")]
    pub threads: std::num::NonZeroUsize,
    /// Most clients at a time
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub max_connections: usize,
    /// Most memory that data in flight may take [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_cap: Option<u64>,
    /// Use threads for file I/O even where io_uring works
    #[arg(long)]
    pub no_io_uring: bool,
    /// Print one line of JSON (uri, size, …) once it serves
    #[arg(long)]
    pub json: bool,
}

/// Use of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tls {
    /// Clients must use TLS.
    Require,
    /// Clients may use TLS.
    Allow,
}

/// Reads a TCP address. Looks up names.
fn address(text: &str) -> Result<SocketAddr, String> {
    let found = match text.parse::<std::net::IpAddr>() {
        Ok(ip) => Ok((ip, NBD_PORT)
            .to_socket_addrs()
            .into_iter()
            .flatten()
            .next()),
        Err(_) if text.rsplit_once(':').is_some() => {
            text.to_socket_addrs().map(|mut all| all.next())
        }
        Err(_) => (text, NBD_PORT).to_socket_addrs().map(|mut all| all.next()),
    };
    match found {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(format!("{text} has no address")),
        Err(error) => Err(error.to_string()),
    }
}

/// Checks an export name against the protocol's limit on strings, and the characters that a URI
/// holds without escapes.
fn export_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    if text.len() <= 256 && text.chars().all(plain) {
        return Ok(text.to_owned());
    }
    Err("use at most 256 letters, digits, '-', '.', '_' and '~'".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_of_exports_are_read() {
        assert_eq!(address("127.0.0.1").unwrap().port(), NBD_PORT);
        assert_eq!(address("[::1]:0").unwrap().port(), 0);
        assert_eq!(address("::1").unwrap().to_string(), "[::1]:10809");
        assert!(export_name("disk-1.raw").is_ok());
        assert!(export_name("a/b").is_err() && export_name("a b").is_err());
    }
}
