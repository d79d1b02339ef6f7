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
pub(super) enum Verb {
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
    Adapter(adapter::Verb),
    /// Sessions at other machines' targets
    #[command(subcommand)]
    Session(session::Verb),
    /// Logical units that targets show
    #[command(subcommand)]
    Lun(path::LunVerb),
    /// Devices: path selection, queue depth, largest I/O
    #[command(subcommand)]
    Device(device::Verb),
    /// Paths to devices, dead ones with the reason
    #[command(subcommand)]
    Path(path::Verb),
    /// Rules that choose the storage array type of a device, and its path selection
    #[command(subcommand, visible_alias = "rule")]
    Claimrule(claim_rule::Verb),
    /// Storage array types and their default path selections
    #[command(subcommand)]
    Satp(claim_rule::SatpVerb),
    /// Path selection policies, and the limits of round robin
    #[command(subcommand)]
    Psp(psp::Verb),
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
    verb: Verb,
    connection: &Connection,
    t: &mut Terminal<'_>,
) -> Done {
    match verb {
        Verb::Discover(args) => discover::run(program, &args, t),
        Verb::Login(args) => login::log_in(args, connection, t),
        Verb::Modify(args) => login::modify(args, connection, t),
        Verb::Logout(args) => login::log_out(&args, connection, t),
        Verb::Rescan(args) => rescan(&args, connection, t),
        Verb::Adapter(verb) => adapter::run(verb, connection, t),
        Verb::Session(verb) => session::run(verb, connection, t),
        Verb::Lun(verb) => path::run_lun(verb, connection, t),
        Verb::Device(verb) => device::run(verb, connection, t),
        Verb::Path(verb) => path::run(verb, connection, t),
        Verb::Claimrule(verb) => claim_rule::run(verb, connection, t),
        Verb::Satp(verb) => claim_rule::run_satp(verb, connection, t),
        Verb::Psp(verb) => psp::run(verb, connection, t),
        Verb::Attach(_) => {
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
