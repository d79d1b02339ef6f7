//! Two namespaces and the links between them.
//!
//! Link N has 10.77.N.1 at the initiator's end and 10.77.N.2 at the target's end. Each end is
//! shaped by a token bucket (tc's tbf) to the rate that Ethernet leaves of the link's speed. Linux
//! counts a frame's header, but not its preamble, check sequence and gap, which take 24 bytes of
//! the wire.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use rustix::process::geteuid;

use super::command::system;
use super::error::LabError;
use bench::network::wire::{ETHERNET, ETHERNET_HEADER};

/// Prefix of the names of namespaces and state folders. The process number of their owner follows.
pub(super) const PREFIX: &str = "sandstone-lab-";

/// Two namespaces and the links between them. On drop they are removed, with all processes that run
/// in them.
#[derive(Debug)]
pub struct Network {
    /// Namespace of the target.
    pub target: String,
    /// Namespace of the initiator.
    pub initiator: String,
    links: usize,
}

/// Returns the target's address on a link.
pub fn target_address(link: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, link as u8, 2)
}

/// Returns the initiator's address on a link.
fn initiator_address(link: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, link as u8, 1)
}

impl Network {
    /// Creates a network with this number of links (at most 16), unshaped.
    ///
    /// # Errors
    /// This machine lacks something, or refuses.
    pub fn new(links: usize) -> Result<Self, LabError> {
        let owner = std::process::id();
        let network = Self {
            target: format!("{PREFIX}{owner}-target"),
            initiator: format!("{PREFIX}{owner}-initiator"),
            links: links.clamp(1, 16),
        };
        // From here on, dropping the network removes what exists.
        for namespace in [&network.target, &network.initiator] {
            system(&["ip", "netns", "add", namespace])?;
            system(&["ip", "-n", namespace, "link", "set", "lo", "up"])?;
        }
        for link in 0..network.links {
            network.add_link(link)?;
        }
        Ok(network)
    }

    fn add_link(&self, link: usize) -> Result<(), LabError> {
        let [(_, here), (_, there)] = self.ends(link);
        system(&[
            "ip",
            "link",
            "add",
            &here,
            "netns",
            &self.initiator,
            "type",
            "veth",
            "peer",
            "name",
            &there,
            "netns",
            &self.target,
        ])?;
        let addresses = [initiator_address(link), target_address(link)];
        for ((namespace, device), address) in self.ends(link).into_iter().zip(addresses) {
            let address = format!("{address}/24");
            system(&[
                "ip", "-n", namespace, "addr", "add", &address, "dev", &device,
            ])?;
            system(&["ip", "-n", namespace, "link", "set", &device, "up"])?;
        }
        Ok(())
    }

    /// Returns both ends of a link: namespace and interface.
    fn ends(&self, link: usize) -> [(&str, String); 2] {
        [
            (&self.initiator, format!("lab-i{link}")),
            (&self.target, format!("lab-t{link}")),
        ]
    }

    fn all_ends(&self) -> impl Iterator<Item = (&str, String)> {
        (0..self.links).flat_map(|link| self.ends(link))
    }

    /// Gives all links a speed in bits per second (`None`: no limit) and an MTU.
    ///
    /// # Errors
    /// The kernel lacks something, or refuses.
    pub fn shape(&self, bits_per_s: Option<f64>, mtu: u32) -> Result<(), LabError> {
        for (namespace, device) in self.all_ends() {
            let mtu = mtu.to_string();
            system(&["ip", "-n", namespace, "link", "set", &device, "mtu", &mtu])?;
        }
        for (namespace, device) in self.all_ends() {
            match bits_per_s {
                Some(bits_per_s) => set_speed(namespace, &device, bits_per_s, mtu)?,
                // The first time, no limit exists.
                None => drop(system(&[
                    "tc", "-n", namespace, "qdisc", "del", "dev", &device, "root",
                ])),
            }
        }
        Ok(())
    }

    /// Drops everything on a link without notice: the interfaces stay up.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn silence(&self, link: usize) -> Result<(), LabError> {
        for (namespace, device) in self.ends(link) {
            system(&[
                "tc", "-n", namespace, "qdisc", "replace", "dev", &device, "root", "pfifo",
                "limit", "0",
            ])?;
        }
        Ok(())
    }

    /// Returns the number of packets that a silenced link has swallowed.
    ///
    /// # Errors
    /// The output of `tc` cannot be understood.
    pub fn swallowed(&self, link: usize) -> Result<u64, LabError> {
        let mut all = 0;
        for (namespace, device) in self.ends(link) {
            let text = system(&["tc", "-n", namespace, "-s", "qdisc", "show", "dev", &device])?;
            all += dropped(&text).ok_or_else(|| {
                LabError::Invalid(format!(
                    "`tc -s` shows no count of dropped packets:\n{text}"
                ))
            })?;
        }
        Ok(all)
    }

    /// Resets the connections of a link, as a restarting target does: destroys the target's end,
    /// and the initiator's end hears of it. Returns the number of connections.
    ///
    /// # Errors
    /// This machine lacks something, or refuses.
    pub fn reset(&self, link: usize) -> Result<usize, LabError> {
        let initiator = initiator_address(link).to_string();
        let said = system(&[
            "ip",
            "netns",
            "exec",
            &self.target,
            "ss",
            "--kill",
            "--no-header",
            "--tcp",
            "dst",
            &initiator,
        ])?;
        Ok(said
            .lines()
            .filter(|line| line.contains(&initiator))
            .count())
    }

    /// Returns the target's portals on the first links.
    pub fn portals(&self, port: u16) -> Vec<SocketAddr> {
        (0..self.links)
            .map(|link| SocketAddr::from((target_address(link), port)))
            .collect()
    }
}

fn set_speed(namespace: &str, device: &str, bits_per_s: f64, mtu: u32) -> Result<(), LabError> {
    let counted = f64::from(mtu + ETHERNET_HEADER) / f64::from(mtu + ETHERNET);
    let rate = format!("{:.0}bit", bits_per_s * counted);
    // A burst leaves at once: 2 ms, and at least the amount that the stack passes on in one piece.
    let burst = format!("{:.0}b", (bits_per_s / 8.0 * 0.002).max(131_072.0));
    let set = system(&[
        "tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf", "rate", &rate,
        "burst", &burst, "latency", "50ms",
    ]);
    set.map(drop).map_err(|error| match error {
        LabError::Command { said, .. } => LabError::Missing(format!(
            "the speed of links cannot be set: the kernel has no token bucket (CONFIG_NET_SCH_TBF, module \
             sch_tbf; on Debian `modprobe sch_tbf`): {said}"
        )),
        other => other,
    })
}

/// Reads the number of dropped packets in the output of `tc -s qdisc`.
fn dropped(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("dropped ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in [&self.target, &self.initiator] {
            remove(namespace);
        }
    }
}

/// Removes a namespace and all processes in it. If this fails, nothing more can be done.
fn remove(namespace: &str) {
    if !Path::new("/run/netns").join(namespace).exists() {
        return;
    }
    for process in system(&["ip", "netns", "pids", namespace])
        .unwrap_or_default()
        .lines()
    {
        let _ = system(&["kill", "-KILL", process.trim()]);
    }
    if let Err(error) = system(&["ip", "netns", "del", namespace]) {
        tracing::warn!(namespace, %error, "a namespace could not be removed");
    }
}

/// Removes the namespaces and state folders of labs that were killed, and returns their number.
pub fn remove_stale() -> usize {
    let mut removed = 0;
    let folders = [Path::new("/run/netns"), &super::target::folder()];
    for (is_namespace, folder) in [true, false].into_iter().zip(folders) {
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        for name in names.filter(|name| is_stale(name)) {
            removed += 1;
            if is_namespace {
                remove(&name);
            } else {
                // The name has the lab's prefix, and its owner is gone.
                let _ = fs::remove_dir_all(folder.join(&name));
            }
        }
    }
    removed
}

/// Reports whether a name belongs to a lab that no longer runs.
fn is_stale(name: &str) -> bool {
    let owner = name
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.split('-').next());
    let Some(owner) = owner.and_then(|owner| owner.parse::<u32>().ok()) else {
        return false;
    };
    let program = fs::read_link(format!("/proc/{owner}/exe")).ok();
    let ours = std::env::current_exe().ok();
    // The process number may have been given to another program since.
    program.is_none()
        || program.as_ref().and_then(|path| path.file_name())
            != ours.as_ref().and_then(|path| path.file_name())
}

/// Returns what this machine lacks for a lab; `None` if nothing is missing.
pub fn missing() -> Option<String> {
    if !geteuid().is_root() {
        return Some(
            "namespaces and links need root (CAP_SYS_ADMIN and CAP_NET_ADMIN): run it with sudo"
                .to_owned(),
        );
    }
    for program in ["ip", "tc", "ss"] {
        if let Err(error) = system(&[program, "-V"]) {
            return Some(error.to_string());
        }
    }
    let tried = Network::new(1).and_then(|network| network.shape(Some(1e9), 1500));
    tried.err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_packets_are_counted() {
        let text = "qdisc pfifo 8005: root refcnt 3 limit 0p\n Sent 0 bytes 0 pkt (dropped 17, overlimits 0 requeues 0)";
        assert_eq!(dropped(text), Some(17));
        assert_eq!(dropped("nothing"), None);
    }

    #[test]
    fn only_labs_without_an_owner_are_stale() {
        assert!(is_stale("sandstone-lab-4194305-target"));
        assert!(!is_stale(&format!(
            "sandstone-lab-{}-target",
            std::process::id()
        )));
        for name in [
            "sandstone-lab-",
            "sandstone-lab-x-target",
            "sandstone-4194305-0",
            "other",
        ] {
            assert!(!is_stale(name), "{name}");
        }
    }
}
