//! `initiator`: the other end of the wire, and the work of this machine there.

use clap::Subcommand;

use super::{Connection, Done, Program, Terminal};
use crate::grammar::completion::login_names;
use crate::print::table::ListArgs;
use control::endpoint::initiator;
use model::Error;

mod adapter;
pub mod attach;
mod claim_rule;
pub(super) mod configured;
mod device;
mod discover;
pub(super) mod login;
mod path;
mod psp;
mod session;
mod times;

/// Verbs of the noun `initiator`.
#[derive(Debug, Subcommand)]
pub(super) enum InitiatorVerb {
    /// Ask portals, or an iSNS server, for their targets; needs no daemon
    Discover(discover::Args),
    /// Log in to a target, now and after each start of the daemon
    Login(login::Login),
    /// Change the login of a target, live
    Modify(login::Modify),
    /// Log out of a target
    Logout(login::Logout),
    /// Look again at the logical units that targets show
    Rescan(Rescan),
    /// Adapter of this machine: its iSCSI name, its timeouts, its contents
    #[command(subcommand)]
    Adapter(adapter::AdapterVerb),
    /// Sessions at other machines' targets
    #[command(subcommand)]
    Session(session::InitiatorSessionVerb),
    /// Logical units that targets show
    #[command(subcommand)]
    Lun(path::LunVerb),
    /// Devices: path selection, queue depth, largest I/O
    #[command(subcommand)]
    Device(device::DeviceVerb),
    /// Paths to devices, dead ones with the reason
    #[command(subcommand)]
    Path(path::PathVerb),
    /// Rules that choose the storage array type of a device, and its path selection
    #[command(subcommand, visible_alias = "rule")]
    Claimrule(claim_rule::ClaimRuleVerb),
    /// Storage array types and their default path selections
    #[command(subcommand)]
    Satp(claim_rule::SatpVerb),
    /// Path selection policies, and the limits of round robin
    #[command(subcommand)]
    Psp(psp::PspVerb),
    /// Offer a device over NBD, to QEMU, fio, libnbd tools and the kernel
    Attach(attach::Args),
}

#[derive(Debug, clap::Args)]
pub(super) struct Rescan {
    /// Target to rescan; without one, all
    #[arg(value_name = "IQN", add = login_names())]
    target: Option<String>,
}

/// Runs a verb that is not a daemon itself.
pub(super) fn run(
    program: &Program,
    verb: InitiatorVerb,
    connection: &Connection,
    t: &mut Terminal<'_>,
) -> Done {
    match verb {
        InitiatorVerb::Discover(args) => discover::run(program, &args, t),
        InitiatorVerb::Login(args) => login::log_in(args, connection, t),
        InitiatorVerb::Modify(args) => login::modify(args, connection, t),
        InitiatorVerb::Logout(args) => login::log_out(&args, connection, t),
        InitiatorVerb::Rescan(args) => rescan(&args, connection, t),
        InitiatorVerb::Adapter(verb) => adapter::run(verb, connection, t),
        InitiatorVerb::Session(verb) => session::run(verb, connection, t),
        InitiatorVerb::Lun(verb) => path::run_lun(verb, connection, t),
        InitiatorVerb::Device(verb) => device::run(verb, connection, t),
        InitiatorVerb::Path(verb) => path::run(verb, connection, t),
        InitiatorVerb::Claimrule(verb) => claim_rule::run(verb, connection, t),
        InitiatorVerb::Satp(verb) => claim_rule::run_satp(verb, connection, t),
        InitiatorVerb::Psp(verb) => psp::run(verb, connection, t),
        InitiatorVerb::Attach(_) => {
            Err(Error::invalid("attach runs until it is ended", "run it from a shell").into())
        }
    }
}

fn rescan(args: &Rescan, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let what = initiator::Rescan {
        target: args.target.clone(),
    };
    let client = connection.client();
    client.ask(&initiator::RESCAN, &[], &what, &())?;
    Ok(writeln!(
        t.out,
        "scanning the targets again; see sandstone initiator lun list"
    )?)
}

/// Devices to list, and the form of the list.
#[derive(Debug, clap::Args)]
pub(super) struct ListOf {
    /// Devices to list [default: all]
    #[arg(short, long = "device", value_name = "NAME", add = crate::grammar::completion::device_names())]
    devices: Vec<String>,
    #[command(flatten)]
    list: ListArgs,
}

impl ListOf {
    /// Returns the devices that were asked for.
    fn fetch(&self, connection: &Connection) -> Result<Vec<control::answer::DeviceView>, Error> {
        let client = connection.client();
        if self.devices.is_empty() {
            return client.call(&initiator::DEVICES, &[]);
        }
        let each = self.devices.iter();
        each.map(|name| client.call(&initiator::DEVICE, &[name]))
            .collect()
    }
}

/// Prints a block of `Name: value` lines, as esxcli prints one object.
fn print_lines(t: &mut Terminal<'_>, title: &str, lines: &[(&str, String)]) -> Done {
    writeln!(t.out, "{title}")?;
    for (name, value) in lines {
        let line = format!("   {name}: {value}");
        writeln!(t.out, "{}", line.trim_end())?;
    }
    Ok(())
}
