//! Commands to type on each client to use a logical unit. `share` and `demo` print them, and the
//! console shows them.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use super::own_address;

/// Client that we print commands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Linux with open-iscsi
    Linux,
    /// VMware ESXi
    Esxi,
    /// Windows
    Windows,
    /// Proxmox VE
    Proxmox,
    /// QEMU, in user space
    Qemu,
    /// libiscsi's tools, in user space
    Libiscsi,
}

impl Client {
    /// All clients.
    pub const ALL: [Self; 6] = [
        Self::Linux,
        Self::Esxi,
        Self::Windows,
        Self::Proxmox,
        Self::Qemu,
        Self::Libiscsi,
    ];

    /// Returns the client's name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Linux => "Linux (open-iscsi)",
            Self::Esxi => "VMware ESXi",
            Self::Windows => "Windows (PowerShell as administrator)",
            Self::Proxmox => "Proxmox VE",
            Self::Qemu => "QEMU (user space)",
            Self::Libiscsi => "libiscsi (user space)",
        }
    }

    /// Returns the commands to type on the client.
    pub fn commands(self, access: &Access) -> Vec<String> {
        match self {
            Self::Linux => linux(access),
            Self::Esxi => esxi(access),
            Self::Windows => windows(access),
            Self::Proxmox => proxmox(access),
            Self::Qemu => qemu(access),
            Self::Libiscsi => libiscsi(access),
        }
    }
}

/// Location of a logical unit, and the names needed to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Addresses at which a client reaches the target; at least one.
    pub portals: Vec<SocketAddr>,
    /// The target's IQN.
    pub target: String,
    /// The LUN.
    pub lun: u16,
    /// The unit's designator, 32 hexadecimal digits.
    pub naa: String,
    /// Logical block size in bytes.
    pub block_size: u32,
    /// CHAP user, if a secret is asked for.
    pub chap_user: Option<String>,
    /// Initiator name that clients in user space must give; `None` if any name does.
    pub initiator: Option<String>,
}

impl Access {
    /// Returns the URL `iscsi://host:port/iqn/lun`, as QEMU and libiscsi take it, without a secret.
    pub fn url(&self) -> String {
        let user = self
            .chap_user
            .as_ref()
            .map_or(String::new(), |user| format!("{user}%SECRET@"));
        format!(
            "iscsi://{user}{}/{}/{}",
            self.first(),
            self.target,
            self.lun
        )
    }

    /// Returns the portal that is named where there is room for one: the first that other machines
    /// reach.
    fn first(&self) -> SocketAddr {
        let far = self.portals.iter().find(|it| !it.ip().is_loopback());
        far.or(self.portals.first())
            .copied()
            .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 3260)))
    }
}

/// Returns the address under which other machines most likely reach a portal. Usually this is its
/// own address. For the unspecified address, it is that of the interface with the default route, or
/// else of any other interface.
pub fn reachable(portal: SocketAddr) -> SocketAddr {
    if !portal.ip().is_unspecified() {
        return portal;
    }
    // Connecting a datagram socket sends nothing; it only chooses the source address.
    let (any, far) = match portal.ip() {
        IpAddr::V4(_) => ("0.0.0.0:0", "192.0.2.1:9"),
        IpAddr::V6(_) => ("[::]:0", "[2001:db8::1]:9"),
    };
    let chosen = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(far)?;
        socket.local_addr()
    });
    let loopback = match portal.ip() {
        IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(_) => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
    };
    let chosen = chosen.ok().map(|address| address.ip());
    let chosen = chosen.or_else(|| own_address::of_interfaces(portal.ip()));
    SocketAddr::new(chosen.unwrap_or(loopback), portal.port())
}

/// Returns the commands to type on every client, or on one.
pub fn instructions(access: &Access, only: Option<Client>) -> String {
    let mut text = String::new();
    let clients = Client::ALL.into_iter();
    for client in clients.filter(|client| only.is_none_or(|only| only == *client)) {
        let (title, lines) = (client.title(), client.commands(access));
        let _ = writeln!(text, "{title}");
        for line in lines {
            let _ = writeln!(text, "    {line}");
        }
        text.push('\n');
    }
    text
}

fn linux(access: &Access) -> Vec<String> {
    let (iqn, portal) = (&access.target, access.first());
    let mut lines = vec![format!("iscsiadm -m discovery -t sendtargets -p {portal}")];
    if let Some(user) = &access.chap_user {
        let update = |name: &str, value: &str| {
            format!("iscsiadm -m node -T {iqn} -o update -n node.session.auth.{name} -v {value}")
        };
        lines.extend([
            update("authmethod", "CHAP"),
            update("username", user),
            update("password", "SECRET"),
        ]);
    }
    lines.push(format!("iscsiadm -m node -T {iqn} --login"));
    lines.push(format!("ls -l /dev/disk/by-id/wwn-0x{}", access.naa));
    lines
}

fn esxi(access: &Access) -> Vec<String> {
    if access.block_size != 512 {
        return vec![format!(
            "not possible: ESXi takes no iSCSI disk with blocks of {} bytes",
            access.block_size
        )];
    }
    let adapter = "vmhba64";
    let mut lines = vec!["esxcli iscsi software set --enabled=true".to_owned()];
    lines.push(format!(
        "esxcli iscsi adapter list                  # the name to use instead of {adapter}"
    ));
    if let Some(user) = &access.chap_user {
        lines.push(format!(
            "esxcli iscsi adapter auth chap set --adapter={adapter} --direction=uni --level=required --authname={user} --secret=SECRET"
        ));
    }
    for portal in &access.portals {
        lines.push(format!(
            "esxcli iscsi adapter discovery sendtarget add --adapter={adapter} --address={portal}"
        ));
    }
    lines.push(format!(
        "esxcli storage core adapter rescan --adapter={adapter}"
    ));
    lines.push(format!(
        "esxcli storage core device list --device=naa.{}",
        access.naa
    ));
    lines
}

fn windows(access: &Access) -> Vec<String> {
    let (iqn, portal) = (&access.target, access.first());
    let chap = access.chap_user.as_ref().map_or(String::new(), |user| {
        format!(" -AuthenticationType ONEWAYCHAP -ChapUsername '{user}' -ChapSecret 'SECRET'")
    });
    vec![
        "Set-Service MSiSCSI -StartupType Automatic; Start-Service MSiSCSI".into(),
        format!(
            "New-IscsiTargetPortal -TargetPortalAddress {} -TargetPortalPortNumber {}",
            portal.ip(),
            portal.port()
        ),
        format!(
            "Connect-IscsiTarget -NodeAddress '{iqn}' -IsPersistent $true -IsMultipathEnabled $true{chap}"
        ),
        format!(
            "Get-Disk | Where-Object UniqueId -eq '{}'",
            access.naa.to_uppercase()
        ),
    ]
}

fn proxmox(access: &Access) -> Vec<String> {
    let (iqn, portal) = (&access.target, access.first());
    let id: String = iqn
        .rsplit(':')
        .next()
        .unwrap_or("san")
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .collect();
    let address = match portal.port() {
        3260 => portal.ip().to_string(),
        _ => portal.to_string(),
    };
    let mut lines = Vec::new();
    if access.chap_user.is_some() {
        lines.push(
            "# first set node.session.auth.* in /etc/iscsi/iscsid.conf on each node, as for Linux"
                .to_owned(),
        );
    }
    lines.push(format!(
        "pvesm add iscsi {id} --portal {address} --target {iqn} --content images"
    ));
    lines.push(format!(
        "pvesm list {id}                              # LUN {} is 0.0.{}.…",
        access.lun, access.lun
    ));
    lines
}

fn qemu(access: &Access) -> Vec<String> {
    let url = access.url();
    let user = access.chap_user.is_some();
    let mut lines = vec![match &access.initiator {
        None => format!("qemu-img info '{url}'"),
        // qemu-img takes the initiator name only in this form; the URL form has no place for it.
        Some(name) => format!(
            "qemu-img info --image-opts driver=iscsi,transport=tcp,portal={},target={},lun={},initiator-name={name}",
            access.first(),
            access.target,
            access.lun
        ),
    }];
    let name = access.initiator.as_ref().map_or(String::new(), |name| {
        format!(" -iscsi initiator-name={name}")
    });
    lines.push(format!(
        "qemu-system-x86_64 … -drive 'file={url},format=raw,if=virtio,cache=none'{name}"
    ));
    if user {
        lines.push(
            "# better than a secret in the list of processes: -object secret,id=chap,file=FILE"
                .to_owned(),
        );
        lines.push(format!(
            "# -drive driver=iscsi,transport=tcp,portal={},target={},lun={},user={},password-secret=chap",
            access.first(),
            access.target,
            access.lun,
            access.chap_user.as_deref().unwrap_or_default()
        ));
    }
    lines
}

fn libiscsi(access: &Access) -> Vec<String> {
    let user = access
        .chap_user
        .as_ref()
        .map_or(String::new(), |user| format!("{user}%SECRET@"));
    let name = access
        .initiator
        .as_ref()
        .map_or(String::new(), |name| format!("-i {name} "));
    vec![
        format!("iscsi-ls {name}-s 'iscsi://{user}{}'", access.first()),
        format!("iscsi-inq {name}'{}'", access.url()),
        format!("iscsi-readcapacity16 {name}'{}'", access.url()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access {
            portals: vec![
                "10.0.0.1:3260".parse().unwrap(),
                "[fd00::1]:3261".parse().unwrap(),
            ],
            target: "iqn.2024-08.internal.sandstone:db".into(),
            lun: 3,
            naa: "652534e0000000000000100000000001".into(),
            block_size: 512,
            chap_user: None,
            initiator: None,
        }
    }

    #[test]
    fn every_client_is_told_where_and_what() {
        let text = instructions(&access(), None);
        for part in [
            "iscsiadm -m discovery -t sendtargets -p 10.0.0.1:3260",
            "--address=[fd00::1]:3261",
            "New-IscsiTargetPortal -TargetPortalAddress 10.0.0.1 -TargetPortalPortNumber 3260",
            "pvesm add iscsi db --portal 10.0.0.1 --target iqn.2024-08.internal.sandstone:db",
            "iscsi://10.0.0.1:3260/iqn.2024-08.internal.sandstone:db/3",
            "naa.652534e0000000000000100000000001",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains("SECRET"));
        let one = instructions(&access(), Some(Client::Qemu));
        assert!(one.contains("qemu-img") && !one.contains("esxcli"));
    }

    #[test]
    fn a_secret_is_never_printed_only_its_place() {
        let text = instructions(
            &Access {
                chap_user: Some("db".into()),
                ..access()
            },
            None,
        );
        assert!(text.contains("node.session.auth.password -v SECRET"));
        assert!(text.contains("iscsi://db%SECRET@10.0.0.1:3260/"));
    }

    #[test]
    fn clients_in_user_space_are_told_the_name_to_give() {
        let initiator = Some("iqn.1993-08.org.debian:01:abc".to_owned());
        let text = instructions(
            &Access {
                initiator,
                ..access()
            },
            None,
        );
        assert!(
            text.contains("iscsi-ls -i iqn.1993-08.org.debian:01:abc -s "),
            "{text}"
        );
        assert!(
            text.contains("lun=3,initiator-name=iqn.1993-08.org.debian:01:abc"),
            "{text}"
        );
        assert!(
            text.contains("cache=none' -iscsi initiator-name=iqn.1993-08.org.debian:01:abc"),
            "{text}"
        );
    }

    #[test]
    fn esxi_is_told_that_it_takes_no_4k_disk() {
        let text = instructions(
            &Access {
                block_size: 4096,
                ..access()
            },
            Some(Client::Esxi),
        );
        assert!(text.contains("not possible"), "{text}");
    }

    #[test]
    fn the_loopback_is_named_only_if_there_is_nothing_else() {
        let at = |portals: &[&str]| {
            let portals = portals.iter().map(|it| it.parse().unwrap());
            Access {
                portals: portals.collect(),
                ..access()
            }
            .first()
            .to_string()
        };
        assert_eq!(at(&["127.0.0.1:3260", "10.0.0.5:3261"]), "10.0.0.5:3261");
        assert_eq!(at(&["10.0.0.5:3260", "10.0.1.5:3260"]), "10.0.0.5:3260");
        assert_eq!(at(&["[::1]:3260", "127.0.0.1:3260"]), "[::1]:3260");
    }

    #[test]
    fn an_unspecified_address_is_never_printed() {
        assert!(
            !reachable("0.0.0.0:3260".parse().unwrap())
                .ip()
                .is_unspecified()
        );
        let one = "10.0.0.1:3260".parse().unwrap();
        assert_eq!(reachable(one), one);
    }
}
