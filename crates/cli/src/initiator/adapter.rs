//! `initiator adapter`: this machine's name as an initiator, the timeouts of its adapter, and its
//! contents.

use clap::{Args, Subcommand};

use super::super::edit::{EditArgs, Request, make};
use super::super::{Connection, Done, Terminal};
use super::times::{self, Times};
use crate::print::table;
use config::change::SetInitiator;
use control::answer::AdapterView;
use control::endpoint::initiator;

#[derive(Debug, Subcommand)]
pub(in super::super) enum AdapterVerb {
    /// Show the adapter
    #[command(visible_alias = "list")]
    Get(Get),
    /// Change the name, for which sessions are made anew, one after another, or the times, live
    Set(Set),
}

#[derive(Debug, Args)]
pub(in super::super) struct Get {
    /// JSON, as the control API gives it
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(in super::super) struct Set {
    /// iSCSI name; empty: that of open-iscsi on this machine, or made of the host name
    #[arg(long, value_name = "IQN")]
    name: Option<String>,
    #[command(flatten)]
    times: Times,
    /// Reset all times that are not given to the defaults
    #[arg(long, help_heading = "Times")]
    default_times: bool,
    #[command(flatten)]
    edit: EditArgs,
}

pub(super) fn run(verb: AdapterVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    match verb {
        AdapterVerb::Get(args) => {
            let adapter: AdapterView = client.call(&initiator::ADAPTER, &[])?;
            if args.json {
                return table::json(t, &adapter);
            }
            let whence = if adapter.is_chosen {
                ""
            } else {
                " (by default)"
            };
            let mut lines = vec![
                ("Name", format!("{}{whence}", adapter.name)),
                ("Targets", adapter.targets.to_string()),
                (
                    "Sessions",
                    format!("{} of {} up", adapter.sessions_up, adapter.sessions),
                ),
                ("Devices", adapter.devices.to_string()),
                (
                    "Paths",
                    format!("{}, {} dead", adapter.paths, adapter.dead_paths),
                ),
            ];
            lines.extend(times::lines(&adapter));
            super::print_lines(t, &adapter.adapter, &lines)
        }
        AdapterVerb::Set(args) => {
            let body = SetInitiator {
                name: args.name,
                times: args.times.spec(),
                default_times: args.default_times,
            };
            let request = Request::with(&initiator::SET_ADAPTER, &[], &body);
            make(t, &client, &args.edit, &request)
        }
    }
}
