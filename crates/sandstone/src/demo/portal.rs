//! The portal of a demo.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use cli::demo::Args;
use model::{Error, ErrorKind};
use target::try_listening;

const DEFAULT_PORT: u16 = 3260;
/// Attempts at a port that seems free before and after each. Another demo may have it meanwhile,
/// and let it go at its end.
const ATTEMPTS: usize = 3;

/// Portal that the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    ip: IpAddr,
    /// Port; `None` is the first free one from 3260 on.
    port: Option<u16>,
}

impl Wanted {
    pub(super) fn of(args: &Args) -> Self {
        let (ip, port) = match args.portal {
            Some(portal) => (portal.ip(), Some(portal.port())),
            None => (IpAddr::V4(Ipv4Addr::LOCALHOST), args.port),
        };
        Self {
            ip,
            port: port.filter(|port| *port != 0),
        }
    }

    /// Returns the address that the user named.
    pub(super) fn named(self) -> Option<SocketAddr> {
        self.port.map(|port| SocketAddr::new(self.ip, port))
    }

    /// Refuses an address that the user named and that cannot be had, before anything is made.
    pub(super) fn check(self) -> Result<(), Error> {
        let Some(portal) = self.named() else {
            return Ok(());
        };
        try_listening(portal).map_err(|error| unusable(portal, &error))
    }

    /// Calls `listen` with the named address, or with ports from 3260 on until one works. Another
    /// demo that starts at once sees the port free too.
    pub(super) fn listen(
        self,
        mut listen: impl FnMut(SocketAddr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if let Some(portal) = self.named() {
            return listen(portal);
        }
        let at = |port| SocketAddr::new(self.ip, port);
        let is_free = |port: u16| TcpListener::bind(at(port)).is_ok();
        let last = DEFAULT_PORT + 999;
        for port in (DEFAULT_PORT..=last).filter(|port| is_free(*port)) {
            let mut listens = listen(at(port));
            for _ in 1..ATTEMPTS {
                if listens.is_ok() || !is_free(port) {
                    break;
                }
                listens = listen(at(port));
            }
            if listens.is_ok() || is_free(port) {
                return listens;
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "no port from {DEFAULT_PORT} to {last} is free on {}",
                self.ip
            ),
            "give a port with --port",
        ))
    }
}

/// Returns the reason why the demo cannot listen at a portal.
pub(super) fn unusable(portal: SocketAddr, error: &io::Error) -> Error {
    let port = portal.port();
    let (why, next) = match error.kind() {
        io::ErrorKind::AddrInUse => (
            "another program listens there".to_owned(),
            format!(
                "omit --port to use the first free port; or see which program listens there: ss -ltnp \
                 'sport = :{port}'"
            ),
        ),
        io::ErrorKind::PermissionDenied if port < 1024 => (
            "only root may use ports below 1024".to_owned(),
            "choose a port from 1024 on, such as --port 3260".to_owned(),
        ),
        io::ErrorKind::AddrNotAvailable => (
            "no interface of this machine has that address".to_owned(),
            "see the addresses of this machine: ip address; --portal 0.0.0.0 listens at all of them"
                .to_owned(),
        ),
        _ => (error.to_string(), "choose another address".to_owned()),
    };
    Error::new(
        ErrorKind::Unavailable,
        format!("the demo cannot listen at {portal}: {why}"),
        next,
    )
    .not_changed("nothing was started")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anywhere() -> Wanted {
        Wanted {
            ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: None,
        }
    }

    #[test]
    fn a_port_that_another_takes_meanwhile_is_passed_over() {
        let mut others = Vec::new();
        let mut tried = Vec::new();
        let listen = |portal: SocketAddr| {
            tried.push(portal.port());
            if tried.len() < 3 {
                others.push(TcpListener::bind(portal));
                return Err(Error::invalid("it is taken", "try another"));
            }
            Ok(())
        };
        anywhere().listen(listen).expect("the third is free");
        assert!(tried.is_sorted_by(|a, b| a < b), "{tried:?}");
        assert_eq!(tried.len(), 3);
    }

    #[test]
    fn a_port_that_another_has_for_a_while_is_tried_again() {
        let mut tried = Vec::new();
        let listen = |portal: SocketAddr| {
            tried.push(portal.port());
            match tried.len() {
                1 => Err(Error::invalid("it was taken", "try again")),
                _ => Ok(()),
            }
        };
        anywhere().listen(listen).expect("it is free again");
        assert_eq!(tried.len(), 2);
        assert_eq!(tried[0], tried[1]);
    }

    #[test]
    fn what_fails_at_a_port_that_stays_free_is_told_after_some_attempts() {
        let mut tried = 0;
        let listen = |_| {
            tried += 1;
            Err(Error::invalid("no", "never"))
        };
        assert_eq!(
            anywhere().listen(listen).expect_err("it fails").message,
            "no"
        );
        assert_eq!(tried, ATTEMPTS);
        let named = Wanted {
            port: Some(7),
            ..anywhere()
        };
        let asked = named.listen(|portal| {
            assert_eq!(portal.port(), 7);
            Err(Error::invalid("asked for", "never"))
        });
        assert_eq!(asked.expect_err("no other").message, "asked for");
    }

    #[test]
    fn an_address_that_cannot_be_had_is_told_with_its_own_reason() {
        let told = |kind: io::ErrorKind, portal: &str| {
            let error = unusable(portal.parse().expect("an address"), &kind.into());
            assert_eq!(error.not_changed, "nothing was started");
            (error.message, error.next)
        };
        let (message, next) = told(io::ErrorKind::AddrInUse, "127.0.0.1:3260");
        assert!(
            message.ends_with("another program listens there"),
            "{message}"
        );
        assert!(next.contains("ss -ltnp 'sport = :3260'"), "{next}");
        let (message, next) = told(io::ErrorKind::PermissionDenied, "127.0.0.1:80");
        assert!(
            message.ends_with("only root may use ports below 1024"),
            "{message}"
        );
        assert!(!next.contains("ss "), "nobody listens: {next}");
        let (message, next) = told(io::ErrorKind::AddrNotAvailable, "192.0.2.1:3260");
        assert!(message.contains("no interface"), "{message}");
        assert!(next.contains("ip address"), "{next}");
    }
}
