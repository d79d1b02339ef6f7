//! `share`: gives a host a logical unit in one step, and prints the commands to type there.

use std::net::SocketAddr;

use clap::{Args as ClapArgs, ValueEnum};

use super::edit::{EditArgs, tell};
use super::lu::Shape;
use super::target::portal;
use crate::grammar::completion::{host_names, lu_names, target_names};
use crate::print::client_instructions::{Access, Client, instructions, reachable};
use crate::print::table;
use crate::{Connection, Done, Terminal};
use config::change::Share;
use control::Client as Control;
use control::answer::Shared;
use control::endpoint::{host, map};
use control::transaction::Commit;
use model::name;

/// Client that commands are printed for.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
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

impl From<Kind> for Client {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Linux => Self::Linux,
            Kind::Esxi => Self::Esxi,
            Kind::Windows => Self::Windows,
            Kind::Proxmox => Self::Proxmox,
            Kind::Qemu => Self::Qemu,
            Kind::Libiscsi => Self::Libiscsi,
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// Logical unit; made if it does not exist and a size or device is given
    #[arg(value_name = "LU", add = lu_names())]
    unit: String,
    /// Name of the initiator, or a host that exists
    #[arg(long, value_name = "IQN|HOST", add = host_names())]
    host: String,
    /// Target [default: the only one, or a new one named after the logical unit]
    #[arg(long, value_name = "IQN", add = target_names())]
    target: Option<String>,
    /// Listening address of a new target [default: 0.0.0.0:3260]
    #[arg(long = "portal", value_name = "ADDR[:PORT]", value_parser = portal)]
    portals: Vec<SocketAddr>,
    /// LUN of the logical unit there [default: the lowest free one]
    #[arg(long)]
    lun: Option<u16>,
    /// Print only the commands for this client
    #[arg(long, value_enum, value_name = "CLIENT")]
    client: Option<Kind>,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    edit: EditArgs,
}

pub(super) fn run(args: &Args, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    let create = if args.shape.given() {
        let device = args.shape.remote_device(&client, &args.edit, t)?;
        Some(args.shape.unit(&args.unit, device, &client)?)
    } else {
        None
    };
    let request = Share {
        unit: args.unit.clone(),
        host: args.host.clone(),
        create,
        target: args.target.clone(),
        portals: args.portals.clone(),
        lun: args.lun,
        read_only: false,
    };
    let how = Commit {
        dry_run: args.edit.dry_run,
        ..Commit::default()
    };
    let shared: Shared = client.ask(&map::SHARE, &[], &how, &request)?;
    if args.edit.json {
        return table::json(t, &shared);
    }
    tell(t, &args.edit, &shared.committed)?;
    if args.edit.dry_run {
        return Ok(());
    }
    let access = Access {
        portals: shared
            .portals
            .iter()
            .map(|&portal| reachable(portal))
            .collect(),
        target: shared.target,
        lun: shared.lun,
        naa: shared.unit.naa,
        block_size: shared.unit.block_size,
        chap_user: shared.chap_user,
        initiator: initiator_of(&args.host, &client),
    };
    write!(
        t.out,
        "\n{}",
        instructions(&access, args.client.map(Client::from))
    )?;
    Ok(())
}

/// Returns the name that a client in user space gives: that of a named initiator, or of the only
/// initiator of a host. A pattern is no name.
fn initiator_of(host: &str, client: &Control) -> Option<String> {
    let name = match name::begins_as_name(host) {
        true => host.to_owned(),
        false => {
            let mut initiators = client.call(&host::SHOW, &[host]).ok()?.spec.initiators;
            initiators.pop().filter(|_| initiators.is_empty())?
        }
    };
    (!name.contains(['*', '?']) && name::foreign(&name).is_ok()).then_some(name)
}
