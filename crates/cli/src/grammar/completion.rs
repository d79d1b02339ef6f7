//! Shell completion, made from the verb tree itself.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use serde::de::DeserializeOwned;
use store::catalog::{Change, PROPERTIES, PropertyInfo};
use store::engine::PoolProperty;

use crate::{Connection, Done, Terminal};
use bench::profile::built_in;
use control::Endpoint;
use control::endpoint::alert::AlertQuery;
use control::endpoint::volume::Listed;
use control::endpoint::{
    access, alert, alert_way, history, host, initiator, lu, pool, session, target, target_group,
    volume,
};
use model::Error;
use model::config::AluaState;
use model::history::HistoryKind;
use model::pool::vdev::VdevView;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Shell to complete for
    #[arg(value_parser = ["bash", "zsh", "fish", "elvish", "powershell"])]
    shell: String,
}

/// Prints the script with which the shell asks this program for completions, names included.
pub(crate) fn run(args: &Args, t: &mut Terminal<'_>) -> Done {
    let shells = Shells::builtins();
    let unknown = || {
        Error::invalid(
            format!("completion for {} is not supported", args.shell),
            "choose bash, zsh, fish, elvish or powershell",
        )
    };
    let shell = shells.completer(&args.shell).ok_or_else(unknown)?;
    Ok(shell.write_registration(
        "COMPLETE",
        "sandstone",
        "sandstone",
        "sandstone",
        &mut t.out,
    )?)
}

/// Reads a size such as `10G`, for clap.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    model::quantity::parse_size(text)
}

pub(crate) fn lu_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask(&lu::LIST, |unit| unit.spec.name.clone()))
}

pub(crate) fn pool_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask(&pool::LIST, |pool| pool.name.clone()))
}

/// Completes folders, volumes and their snapshots.
pub(crate) fn dataset_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| datasets(None))
}

pub(crate) fn snapshot_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| datasets(Some("snapshot")))
}

/// Completes the properties of datasets, with their meaning.
pub(crate) fn properties() -> ArgValueCandidates {
    ArgValueCandidates::new(|| PROPERTIES.iter().map(|of| candidate(of, "")).collect())
}

/// Completes the properties that a new dataset may be given, up to their value.
pub(crate) fn assignments() -> ArgValueCandidates {
    ArgValueCandidates::new(|| settable(&[Change::Settable, Change::AtCreation]))
}

/// Completes the properties of datasets that can be set, up to their value, and the datasets that
/// may follow them.
pub(crate) fn assignments_and_datasets() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let mut words = settable(&[Change::Settable]);
        words.extend(datasets(None));
        words
    })
}

fn settable(when: &[Change]) -> Vec<CompletionCandidate> {
    let settable = PROPERTIES.iter().filter(|of| when.contains(&of.change));
    settable.map(|of| candidate(of, "=")).collect()
}

fn candidate(of: &PropertyInfo, suffix: &str) -> CompletionCandidate {
    CompletionCandidate::new(format!("{}{suffix}", of.name)).help(Some(of.help.into()))
}

/// Completes the properties of pools that can be set, up to their value.
pub(crate) fn pool_assignments() -> ArgValueCandidates {
    let name = |of: PoolProperty| CompletionCandidate::new(format!("{}=", of.name()));
    ArgValueCandidates::new(move || PoolProperty::ALL.into_iter().map(name).collect())
}

pub(crate) fn alua_states() -> ArgValueCandidates {
    let name = |state: AluaState| CompletionCandidate::new(state.as_str());
    ArgValueCandidates::new(move || AluaState::ALL.into_iter().map(name).collect())
}

pub(crate) fn profiles() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let names = built_in().into_iter().map(|profile| profile.name);
        names.map(CompletionCandidate::new).collect()
    })
}

/// Completes the devices of all pools, spares too.
pub(crate) fn vdev_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let pools = daemon().client().call(&pool::LIST, &[]).unwrap_or_default();
        let mut names = Vec::new();
        for pool in &pools {
            let vdevs = [&pool.vdevs, &pool.logs, &pool.caches, &pool.spares];
            let vdevs = vdevs.into_iter().flatten().flat_map(VdevView::all);
            let leaves = vdevs.filter(|vdev| vdev.children.is_empty());
            names.extend(leaves.map(|leaf| CompletionCandidate::new(&leaf.name)));
        }
        names
    })
}

pub(crate) fn target_names() -> ArgValueCandidates {
    ArgValueCandidates::new(targets)
}

pub(crate) fn target_group_names() -> ArgValueCandidates {
    ArgValueCandidates::new(target_groups)
}

/// Completes the targets and target groups that a map may name.
pub(crate) fn target_and_group_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let mut names = targets();
        names.extend(target_groups());
        names
    })
}

pub(crate) fn host_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask(&host::LIST, |host| host.spec.name.clone()))
}

pub(crate) fn user_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask(&access::USER_LIST, |user| user.name.clone()))
}

pub(crate) fn login_numbers() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask(&access::LOGINS, |login| login.id.to_string()))
}

pub(crate) fn token_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask(&access::TOKEN_LIST, |token| token.name.clone()))
}

/// Completes the objects of all kinds that have a history.
pub(crate) fn names_with_history() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let client = daemon().client();
        let objects = HistoryKind::ALL.map(|kind| client.call(&history::LIST, &[kind.as_str()]));
        let objects = objects.into_iter().flat_map(Result::unwrap_or_default);
        objects
            .map(|object| CompletionCandidate::new(object.name))
            .collect()
    })
}

/// Completes the numbers of open alerts.
pub(crate) fn alert_numbers() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let open = AlertQuery::default();
        let found = daemon().client().ask(&alert::LIST, &[], &open, &());
        let alerts = found.unwrap_or_default().into_iter();
        let named = alerts.map(|alert| {
            let what = format!("{} of {}", alert.condition, alert.object);
            CompletionCandidate::new(alert.number.to_string()).help(Some(what.into()))
        });
        named.collect()
    })
}

pub(crate) fn way_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask(&alert_way::LIST, |way| way.spec.name.clone()))
}

pub(crate) fn session_numbers() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask(&session::LIST, |session| session.tsih.to_string()))
}

pub(crate) fn login_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask(&initiator::LOGINS, |login| login.iqn.clone()))
}

pub(crate) fn device_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask(&initiator::DEVICES, |device| device.state.nmp.name.clone()))
}

/// Completes the runtime names of all paths.
pub(crate) fn path_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let devices = daemon().client().call(&initiator::DEVICES, &[]);
        let devices = devices.unwrap_or_default().into_iter();
        let paths = devices.flat_map(|device| device.state.nmp.paths);
        let names = paths.map(|path| path.runtime_name);
        names.map(CompletionCandidate::new).collect()
    })
}

fn targets() -> Vec<CompletionCandidate> {
    ask(&target::LIST, |target| target.spec.iqn.clone())
}

fn target_groups() -> Vec<CompletionCandidate> {
    ask(&target_group::LIST, |group| group.spec.name.clone())
}

/// The names of all datasets, or of those of a kind.
fn datasets(kind: Option<&str>) -> Vec<CompletionCandidate> {
    let named = Listed {
        kinds: kind.map(str::to_owned),
        ..Listed::names_only()
    };
    let found = daemon().client().ask(&volume::LIST, &[], &named, &());
    let names = found.unwrap_or_default().into_iter().map(|of| of.name);
    names.map(CompletionCandidate::new).collect()
}

/// Names from the daemon that the environment leads to; none where it does not answer.
fn ask<T: DeserializeOwned>(
    list: &Endpoint<(), (), Vec<T>>,
    name: fn(&T) -> String,
) -> Vec<CompletionCandidate> {
    let items = daemon().client().call(list, &[]).unwrap_or_default();
    let names = items.iter().map(name);
    names.map(CompletionCandidate::new).collect()
}

/// Returns the daemon that the environment names.
fn daemon() -> Connection {
    Connection {
        control: std::env::var("SANDSTONE_CONTROL")
            .ok()
            .and_then(|text| text.parse().ok()),
        state: std::env::var_os("SANDSTONE_STATE").map(PathBuf::from),
        control_token: std::env::var_os("SANDSTONE_TOKEN_FILE").map(PathBuf::from),
        control_ca: std::env::var_os("SANDSTONE_CONTROL_CA").map(PathBuf::from),
        control_fingerprint: std::env::var("SANDSTONE_CONTROL_FINGERPRINT").ok(),
        command: None,
    }
}
