//! `initiator psp`: path selection policies, and `esxcli storage nmp psp roundrobin deviceconfig`.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::super::edit::{EditArgs, Request, make};
use super::super::{Connection, Done, Terminal};
use super::ListOf;
use crate::grammar::completion::{device_names, size};
use crate::print::table::{Column, ListArgs, left, print, right};
use config::change::SetDevice;
use control::answer::DeviceView;
use control::endpoint::initiator;
use multipath::Psp;

#[derive(Debug, Subcommand)]
pub(in super::super) enum PspVerb {
    /// List the policies
    #[command(visible_alias = "show")]
    List(ListArgs),
    /// Show the limits of round robin of devices
    Get(ListOf),
    /// Set the limits of round robin of a device, live
    Set(Set),
}

#[derive(Debug, Args)]
pub(in super::super) struct Set {
    /// Name of the device
    #[arg(short, long, value_name = "NAME", add = device_names())]
    device: String,
    /// I/Os down a path before the next one
    #[arg(short = 'I', long, value_name = "N")]
    iops: Option<u32>,
    /// Bytes down a path before the next one
    #[arg(short = 'B', long, value_name = "SIZE", value_parser = size)]
    bytes: Option<u64>,
    /// Limits that count
    #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = ["default", "iops", "bytes"])]
    kind: Option<String>,
    /// Use paths that are active but not optimized, too
    #[arg(short = 'U', long, value_name = "yes|no", value_parser = super::super::lu::yes_no)]
    useano: Option<bool>,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Serialize)]
struct Policy {
    name: &'static str,
    description: &'static str,
}

pub(super) fn run(verb: PspVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    match verb {
        PspVerb::List(args) => {
            let policies = Psp::ALL.map(|psp| Policy {
                name: psp.name(),
                description: psp.description(),
            });
            print(t, &args, &POLICIES, &policies, "no policies")
        }
        PspVerb::Get(args) => {
            let devices = args.fetch(connection)?;
            print(t, &args.list, &LIMITS, &devices, "no devices")
        }
        PspVerb::Set(args) => set(args, connection, t),
    }
}

fn set(args: Set, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let options = [
        args.iops.map(|iops| format!("iops={iops}")),
        args.bytes.map(|bytes| format!("bytes={bytes}")),
        args.kind.map(|kind| match kind.as_str() {
            "default" => "policy=rr".to_owned(),
            kind => format!("policy={kind}"),
        }),
        args.useano.map(|both| format!("useANO={}", u8::from(both))),
    ];
    let body = SetDevice {
        round_robin: Some(options.into_iter().flatten().collect::<Vec<_>>().join(",")),
        ..SetDevice::default()
    };
    let at = [args.device.as_str()];
    let client = connection.client();
    let request = Request::with(&initiator::SET_DEVICE, &at, &body);
    make(t, &client, &args.edit, &request)?;
    // A device that is not there now may come.
    let device: Option<DeviceView> = client.call(&initiator::DEVICE, &at).ok();
    if let Some(device) = device.filter(|device| device.state.nmp.psp != Psp::RoundRobin) {
        writeln!(
            t.err,
            "note: the device uses {}; the limits take effect with VMW_PSP_RR: sandstone initiator device \
             set -d {} -P VMW_PSP_RR",
            device.state.nmp.psp.name(),
            args.device
        )?;
    }
    Ok(())
}

const POLICIES: [Column<Policy>; 2] = [
    left("name", |p, _| p.name.into()),
    left("description", |p, _| p.description.into()),
];

const LIMITS: [Column<DeviceView>; 6] = [
    left("device", |d, _| d.state.nmp.name.clone()),
    left("psp", |d, _| d.state.nmp.psp.name().into()),
    right("iops", |d, _| d.state.nmp.round_robin.iops.to_string()),
    right("bytes", |d, n| n.size(d.state.nmp.round_robin.bytes)),
    left("type", |d, _| {
        d.state.nmp.round_robin.limit_type.name().into()
    }),
    left("useano", |d, _| d.state.nmp.round_robin.use_ano.to_string()),
];
