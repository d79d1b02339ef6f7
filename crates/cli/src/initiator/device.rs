//! `initiator device`: devices behind the sessions, in the words of `esxcli storage nmp device`.

use clap::{Args, Subcommand};

use super::super::edit::{EditArgs, Request, make};
use super::super::{Connection, Done, Terminal};
use super::ListOf;
use super::login::bytes;
use super::times::shown_fence;
use crate::grammar::completion::{device_names, path_names};
use crate::print::table::{self, Column, extra, left, or_dash, print, right};
use config::change::SetDevice;
use control::answer::DeviceView;
use control::endpoint::initiator;
use model::quantity::{format_size, format_time};

#[derive(Debug, Subcommand)]
pub(in super::super) enum DeviceVerb {
    /// List devices
    #[command(visible_alias = "show")]
    List(ListOf),
    /// Show everything about one device, as esxcli prints it
    Get(Get),
    /// Choose path selection, queue depth or largest I/O of a device, live
    Set(Set),
    /// Return a device to claim rules and defaults
    Reset(Reset),
}

#[derive(Debug, Args)]
pub(in super::super) struct Get {
    /// Name of the device
    #[arg(short, long, value_name = "NAME", add = device_names(), conflicts_with = "name", required_unless_present = "name")]
    device: Option<String>,
    /// Name of the device, as other verbs take it
    #[arg(value_name = "NAME", add = device_names())]
    name: Option<String>,
    /// JSON, as the control API gives it
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(in super::super) struct Set {
    /// Name of the device
    #[arg(short, long, value_name = "NAME", add = device_names())]
    device: String,
    /// Path selection: VMW_PSP_MRU, VMW_PSP_FIXED, VMW_PSP_RR, least-queue or lowest-latency
    #[arg(short = 'P', long, value_name = "PSP")]
    psp: Option<String>,
    /// Path that VMW_PSP_FIXED prefers, as vmhba64:C0:T0:L0; empty for none
    #[arg(long, value_name = "PATH", add = path_names())]
    preferred_path: Option<String>,
    /// Most commands at the device at once (DQLEN)
    #[arg(long, value_name = "N")]
    queue_depth: Option<u32>,
    /// Largest command (DiskMaxIOSize); 0 for the size that the device names
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    max_io: Option<u32>,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(in super::super) struct Reset {
    /// Name of the device
    #[arg(short, long, value_name = "NAME", add = device_names())]
    device: String,
    #[command(flatten)]
    edit: EditArgs,
}

pub(super) fn run(verb: DeviceVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    match verb {
        DeviceVerb::List(args) => {
            let devices = args.fetch(connection)?;
            print(
                t,
                &args.list,
                &COLUMNS,
                &devices,
                "no devices; `sandstone initiator session list` shows the sessions that should have some",
            )
        }
        DeviceVerb::Get(args) => {
            // clap makes sure that one of them is given.
            let name = args.device.as_deref().or(args.name.as_deref());
            let device = client.call(&initiator::DEVICE, &[name.unwrap_or_default()])?;
            get(t, &device, args.json)
        }
        DeviceVerb::Set(args) => {
            let body = SetDevice {
                psp: args.psp,
                preferred_path: args.preferred_path,
                queue_depth: args.queue_depth,
                max_io: args.max_io,
                round_robin: None,
            };
            let request = Request::with(&initiator::SET_DEVICE, &[&args.device], &body);
            make(t, &client, &args.edit, &request)
        }
        DeviceVerb::Reset(args) => {
            let request = Request::bare(&initiator::RESET_DEVICE, &[&args.device]);
            make(t, &client, &args.edit, &request)
        }
    }
}

fn get(t: &mut Terminal<'_>, device: &DeviceView, json: bool) -> Done {
    if json {
        return table::json(t, device);
    }
    let (state, nmp) = (&device.state, &device.state.nmp);
    let lines = [
        ("Device Display Name", nmp.display_name.clone()),
        ("Storage Array Type", nmp.satp.name().to_owned()),
        (
            "Storage Array Type Device Config",
            nmp.satp_device_config.clone(),
        ),
        ("Path Selection Policy", nmp.psp.name().to_owned()),
        (
            "Path Selection Policy Device Config",
            nmp.psp_device_config.clone(),
        ),
        ("Working Paths", nmp.working_paths.join(", ")),
        (
            "Size",
            format!("{} ({} bytes)", format_size(state.size), state.size),
        ),
        ("Block Size", state.block_size.to_string()),
        ("Vendor", state.vendor.clone()),
        ("Model", state.model.clone()),
        ("Revision", state.revision.clone()),
        ("Serial", state.serial.clone().unwrap_or_default()),
        ("Queue Depth", nmp.queue.dqlen.to_string()),
        (
            "Active, Queued",
            format!("{}, {}", nmp.queue.actv, nmp.queue.qued),
        ),
        ("%USD, LOAD", format!("{}, {}", used(device), load(device))),
        ("Largest I/O", format_size(state.max_io.into())),
        ("APD Timeout", format_time(state.apd_timeout_s * 1000)),
        ("Fence Timeout", shown_fence(state.fence_timeout_ms)),
        ("Fence Settle", format_time(state.fence_settle_ms)),
        ("Logical Units", device.units.join(", ")),
        ("Fault", state.fault.clone().unwrap_or_default()),
    ];
    super::print_lines(t, &nmp.name, &lines)
}

/// Returns %USD as esxtop shows it.
fn used(device: &DeviceView) -> String {
    format!("{:.0}", device.state.nmp.queue.used_percent)
}

/// Returns LOAD as esxtop shows it.
fn load(device: &DeviceView) -> String {
    format!("{:.2}", device.state.nmp.queue.load)
}

const COLUMNS: [Column<DeviceView>; 17] = [
    left("device", |d, _| d.state.nmp.name.clone()),
    right("size", |d, n| n.size(d.state.size)),
    left("vendor", |d, _| or_dash(&d.state.vendor)),
    left("model", |d, _| or_dash(&d.state.model)),
    left("satp", |d, _| d.state.nmp.satp.name().into()),
    left("psp", |d, _| d.state.nmp.psp.name().into()),
    right("paths", |d, _| d.state.ways.len().to_string()),
    right("dead", |d, _| dead(d).to_string()),
    right("dqlen", |d, _| d.state.nmp.queue.dqlen.to_string()),
    left("state", |d, _| match &d.state.fault {
        None if dead(d) > 0 => "degraded".into(),
        None => "on".into(),
        Some(fault) => format!("dead: {fault}"),
    }),
    extra(right("actv", |d, _| d.state.nmp.queue.actv.to_string())),
    extra(right("qued", |d, _| d.state.nmp.queue.qued.to_string())),
    extra(right("%usd", |d, _| used(d))),
    extra(right("load", |d, _| load(d))),
    extra(right("block", |d, _| d.state.block_size.to_string())),
    extra(left("working", |d, _| {
        or_dash(&d.state.nmp.working_paths.join(","))
    })),
    extra(left("lus", |d, _| or_dash(&d.units.join(",")))),
];

fn dead(device: &DeviceView) -> usize {
    let ways = device.state.ways.iter();
    ways.filter(|way| way.reason.is_some()).count()
}
