//! `pool trim`, in zpool's manner.

use std::time::Duration;

use clap::Args;

use super::super::{Connection, Done};
use super::vdev::name;
use crate::grammar::completion::{pool_names, size, vdev_names};
use control::endpoint::pool;
use model::pool::status::PoolView;
use model::pool::trim::{Trim, TrimAction};
use model::pool::vdev::VdevView;

#[derive(Debug, Args)]
pub(in super::super) struct TrimArgs {
    /// End the trims of these devices
    #[arg(short = 'c', long, conflicts_with_all = ["pause", "rate", "wait"])]
    cancel: bool,
    /// Pause the trims; the verb without this option resumes them
    #[arg(short = 's', long, visible_alias = "suspend", conflicts_with_all = ["rate", "wait"])]
    pause: bool,
    /// Most bytes a second of each device, such as 100M [default: as fast as disturbs no other I/O]
    #[arg(short = 'r', long, value_name = "N", value_parser = size)]
    rate: Option<u64>,
    /// Return when the devices are trimmed
    #[arg(short = 'w', long)]
    wait: bool,
    /// Name of the pool
    #[arg(add = pool_names())]
    pool: String,
    /// Devices to trim [default: all]
    #[arg(value_name = "DEVICE", add = vdev_names())]
    devices: Vec<String>,
}

pub(super) fn run(connection: &Connection, args: TrimArgs) -> Done {
    let action = match (args.cancel, args.pause) {
        (true, _) => TrimAction::Cancel,
        (_, true) => TrimAction::Pause,
        _ => TrimAction::Start,
    };
    let devices: Result<Vec<String>, _> = args.devices.into_iter().map(name).collect();
    let request = Trim {
        action,
        devices: devices?,
        rate: args.rate,
    };
    let at = [args.pool.as_str()];
    let client = connection.client();
    let mut view: PoolView = client.ask(&pool::TRIM, &at, &(), &request)?;
    while args.wait && view.vdevs.iter().flat_map(VdevView::all).any(is_running) {
        std::thread::sleep(Duration::from_millis(200));
        view = client.call(&pool::SHOW, &at)?;
    }
    Ok(())
}

fn is_running(vdev: &VdevView) -> bool {
    vdev.trim
        .as_ref()
        .is_some_and(|trim| trim.state == "running")
}
