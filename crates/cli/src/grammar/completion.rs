//! Shell completion, made from the verb tree itself.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use serde_json::Value;
use store::catalog::{Change, PROPERTIES, PropertyInfo};
use store::pool::PoolProperty;

use crate::{Connection, Done, Terminal};
use bench::profile::built_in;
use model::Error;
use model::config::AluaState;

/// All datasets, by their names alone.
const DATASETS: &str = "/v1/volumes?properties=";

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_parser = ["bash", "zsh", "fish", "elvish", "powershell"])]
    shell: String,
}

/// Prints the script that makes the shell ask this program for completions, names included.
pub(crate) fn run(args: &Args, t: &mut Terminal<'_>) -> Done {
    let shells = Shells::builtins();
    let unknown = || {
        Error::invalid(
            format!("no completion is made for {}", args.shell),
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

/// A size such as `10G`, for clap.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    model::quantity::parse_size(text)
}

pub(crate) fn lu_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask("/v1/lus", |item| &item["spec"]["name"]))
}

pub(crate) fn pool_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask("/v1/pools", |item| &item["name"]))
}

/// Folders, volumes and their snapshots.
pub(crate) fn dataset_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask(DATASETS, |item| &item["name"]))
}

pub(crate) fn snapshot_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        ask(
            "/v1/volumes?kinds=snapshot&properties=",
            |item| &item["name"],
        )
    })
}

/// The properties of datasets, with their meaning.
pub(crate) fn properties() -> ArgValueCandidates {
    ArgValueCandidates::new(|| PROPERTIES.iter().map(|of| candidate(of, "")).collect())
}

/// The properties that a new dataset may be given, up to their value.
pub(crate) fn assignments() -> ArgValueCandidates {
    ArgValueCandidates::new(|| settable(&[Change::Settable, Change::AtCreation]))
}

/// The properties of datasets that can be set, up to their value, and the datasets that may follow them.
pub(crate) fn assignments_and_datasets() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let mut words = settable(&[Change::Settable]);
        words.extend(ask(DATASETS, |item| &item["name"]));
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

/// The properties of pools that can be set, up to their value.
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

/// The devices of all pools, spares too.
pub(crate) fn vdev_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let pools: Vec<Value> = daemon().client().get("/v1/pools").unwrap_or_default();
        let mut names = Vec::new();
        for pool in &pools {
            leaf_names(&pool["vdevs"], &mut names);
            leaf_names(&pool["logs"], &mut names);
            leaf_names(&pool["caches"], &mut names);
            leaf_names(&pool["spares"], &mut names);
        }
        names.into_iter().map(CompletionCandidate::new).collect()
    })
}

fn leaf_names(vdevs: &Value, names: &mut Vec<String>) {
    for vdev in vdevs.as_array().into_iter().flatten() {
        match vdev["children"].as_array() {
            Some(children) if !children.is_empty() => leaf_names(&vdev["children"], names),
            _ => names.extend(vdev["name"].as_str().map(str::to_owned)),
        }
    }
}

pub(crate) fn target_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask("/v1/targets", |item| &item["spec"]["iqn"]))
}

pub(crate) fn target_group_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask("/v1/target-groups", |item| &item["spec"]["name"]))
}

/// What the target of a map may be.
pub(crate) fn target_and_group_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let mut names = ask("/v1/targets", |item| &item["spec"]["iqn"]);
        names.extend(ask("/v1/target-groups", |item| &item["spec"]["name"]));
        names
    })
}

pub(crate) fn host_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask("/v1/hosts", |item| &item["spec"]["name"]))
}

pub(crate) fn session_numbers() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask("/v1/sessions", |item| &item["tsih"]))
}

pub(crate) fn login_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ask("/v1/initiator/targets", |item| &item["iqn"]))
}

pub(crate) fn device_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        ask(
            "/v1/initiator/devices",
            |item| &item["state"]["nmp"]["name"],
        )
    })
}

/// The runtime names of all paths.
pub(crate) fn path_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let devices: Vec<Value> = daemon()
            .client()
            .get("/v1/initiator/devices")
            .unwrap_or_default();
        let paths = devices
            .iter()
            .filter_map(|item| item["state"]["nmp"]["paths"].as_array());
        let names = paths
            .flatten()
            .filter_map(|path| path["runtime_name"].as_str());
        names.map(CompletionCandidate::new).collect()
    })
}

/// Names from the daemon that the environment leads to; none where it does not answer.
fn ask(path: &str, name: fn(&Value) -> &Value) -> Vec<CompletionCandidate> {
    let items: Vec<Value> = daemon().client().get(path).unwrap_or_default();
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    items
        .iter()
        .map(|item| CompletionCandidate::new(text(name(item))))
        .collect()
}

/// The daemon that the environment leads to.
fn daemon() -> Connection {
    Connection {
        control: std::env::var("SANDSTONE_CONTROL")
            .ok()
            .and_then(|text| text.parse().ok()),
        state: std::env::var_os("SANDSTONE_STATE").map(PathBuf::from),
        command: None,
    }
}
