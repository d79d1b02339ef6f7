//! The interface through which a path leaves: its MTU and its speed, from the kernel.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// An interface of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// Bytes of the largest IP packet.
    pub mtu: u32,
    /// Speed in bits per second. `None` if the kernel does not know it, or if the interface is
    /// virtual: a virtual interface's speed means nothing.
    pub bits_per_s: Option<u64>,
    /// Whether hardware is behind the interface.
    pub hardware: bool,
}

/// Returns the source address that the kernel chooses for a destination.
///
/// # Errors
/// No route leads to the destination.
pub fn source_address(to: SocketAddr) -> std::io::Result<IpAddr> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    // Connecting a datagram socket sends nothing.
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    Ok(socket.local_addr()?.ip())
}

impl Interface {
    /// Finds the interface that has this address.
    pub fn with_address(address: IpAddr) -> Option<Self> {
        let holds = |held: &nix::ifaddrs::InterfaceAddress| {
            let held = held.address.as_ref()?;
            let ip: IpAddr = match (held.as_sockaddr_in(), held.as_sockaddr_in6()) {
                (Some(v4), _) => v4.ip().into(),
                (_, Some(v6)) => v6.ip().into(),
                _ => return None,
            };
            (ip == address).then_some(())
        };
        let mut all = nix::ifaddrs::getifaddrs().ok()?;
        let found = all.find(|held| holds(held).is_some())?;
        Self::named(&found.interface_name)
    }

    /// Finds the interface of this name.
    pub fn named(name: &str) -> Option<Self> {
        if name.contains('/') {
            return None;
        }
        Self::read(name, &Path::new("/sys/class/net").join(name))
    }

    fn read(name: &str, folder: &Path) -> Option<Self> {
        let number = |file: &str| -> Option<i64> {
            let text = std::fs::read_to_string(folder.join(file)).ok()?;
            text.trim().parse().ok()
        };
        let hardware = folder.join("device").exists();
        let megabits = number("speed").filter(|speed| *speed > 0 && hardware);
        Some(Self {
            name: name.to_owned(),
            mtu: number("mtu").and_then(|mtu| u32::try_from(mtu).ok())?,
            bits_per_s: megabits.map(|speed| speed.cast_unsigned() * 1_000_000),
            hardware,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_found() {
        let to = SocketAddr::from(([127, 0, 0, 1], 9));
        let source = source_address(to).unwrap();
        let interface = Interface::with_address(source).unwrap();
        assert_eq!(interface.name, "lo");
        assert!(interface.mtu >= 1500 && interface.bits_per_s.is_none());
        assert_eq!(Interface::named("../../etc"), None);
    }

    #[test]
    fn speeds_of_hardware_are_believed_and_others_not() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |file: &str, text: &str| std::fs::write(folder.path().join(file), text).unwrap();
        write("mtu", "9000\n");
        write("speed", "10000\n");
        let read = || Interface::read("x", folder.path()).unwrap();
        assert_eq!((read().mtu, read().bits_per_s), (9000, None));
        std::fs::create_dir(folder.path().join("device")).unwrap();
        assert_eq!(read().bits_per_s, Some(10_000_000_000));
        write("speed", "-1\n");
        assert_eq!(read().bits_per_s, None);
    }
}
