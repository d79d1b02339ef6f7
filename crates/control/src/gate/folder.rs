//! Limits of a token with a folder: datasets below the folder, logical units on them, and maps of
//! these units to the hosts of the token. Everything else is refused.

use benchmarks::{BenchmarkView, StartBenchmark};
use config::change::{AddMap, CreateUnit, ModifyUnit, RemoveMap};
use model::access::FolderGrant;
use model::config::{Config, MapSpec, UnitSpec};
use model::pool::dataset::change::DatasetChange;
use model::{Error, ErrorKind};
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use super::Request;
use crate::call;
use crate::plane::Plane;

/// Check of one operation: lets a request through, or refuses it.
type Check = fn(&Plane, &FolderGrant, &Request<'_>) -> Result<(), Error>;

/// Limit of one operation.
enum Limit {
    /// The answer is limited to what the token reaches.
    Filtered,
    /// Everything that the request names must be within reach of the token.
    Checked(Check),
}

/// Returns the limit of an operation. `None` means that no token with a folder may ask for it.
fn limit_of(id: &str) -> Option<Limit> {
    let check: Check = match id {
        "access_me" | "benchmark_list" | "host_list" | "lu_list" | "map_list" | "volume_list" => {
            return Some(Limit::Filtered);
        }
        "benchmark_start" => |plane, grant, request| {
            let body: StartBenchmark = read(request)?;
            unit(plane, grant, &body.unit)
        },
        "benchmark_show" | "benchmark_stop" | "benchmark_delete" | "benchmark_compare" => {
            benchmarks
        }
        "host_show" => |_, grant, request| host(grant, Some(object(request))),
        "lu_show" | "lu_delete" => |plane, grant, request| unit(plane, grant, object(request)),
        "lu_create" => |_, grant, request| {
            let body: CreateUnit = read(request)?;
            volume(grant, body.backend.volume())
        },
        "lu_modify" => |plane, grant, request| {
            let body: ModifyUnit = read(request)?;
            unit(plane, grant, object(request))?;
            match &body.backend {
                None => Ok(()),
                Some(backend) => volume(grant, backend.volume()),
            }
        },
        "map_add" => |plane, grant, request| {
            let body: AddMap = read(request)?;
            unit(plane, grant, &body.unit)?;
            host(grant, body.host.as_deref())
        },
        "map_remove" => |plane, grant, request| {
            let body: RemoveMap = read(request)?;
            unit(plane, grant, &body.unit)?;
            host(grant, body.host.as_deref())
        },
        "volume_change" | "volume_snapshot" => |_, grant, request| change(grant, &read(request)?),
        _ => return None,
    };
    Some(Limit::Checked(check))
}

/// Reports whether a token with a folder may ask for an operation at all.
pub(crate) fn is_within_reach(id: &str) -> bool {
    limit_of(id).is_some()
}

/// Returns the word of an operation's limit in the OpenAPI document (`x-folder`).
pub(crate) fn word_of_limit(id: &str) -> &'static str {
    match limit_of(id) {
        None => "refused",
        Some(Limit::Filtered) => "filtered",
        Some(Limit::Checked(_)) => "checked",
    }
}

/// Lets a request of a token with a folder through, or refuses it.
pub(super) fn admit(
    plane: &Plane,
    grant: &FolderGrant,
    id: &str,
    request: &Request<'_>,
) -> Result<(), Error> {
    match limit_of(id) {
        Some(Limit::Filtered) => Ok(()),
        Some(Limit::Checked(check)) => check(plane, grant, request),
        None => Err(refused(grant, "this")),
    }
}

/// Returns the name of the object in a request's path.
fn object<'a>(request: &Request<'a>) -> &'a str {
    request.at.first().map(String::as_str).unwrap_or_default()
}

fn read<B: DeserializeOwned + ToSchema + 'static>(request: &Request<'_>) -> Result<B, Error> {
    call::body(request.body)
}

fn refused(grant: &FolderGrant, what: &str) -> Error {
    Error::new(
        ErrorKind::NotPermitted,
        format!(
            "the token is limited to the folder {}, and {what} is beyond it",
            grant.folder
        ),
        "use a token without a folder, or ask an admin",
    )
}

fn volume(grant: &FolderGrant, name: Option<&str>) -> Result<(), Error> {
    match name.is_some_and(|name| grant.holds(name)) {
        true => Ok(()),
        false => Err(refused(grant, "a unit on other storage")),
    }
}

fn unit(plane: &Plane, grant: &FolderGrant, name: &str) -> Result<(), Error> {
    let config = plane.config();
    match config.unit(name).is_some_and(|unit| sees_unit(grant, unit)) {
        true => Ok(()),
        // Whether the unit exists is not told.
        false => Err(refused(grant, &format!("a unit {name}"))),
    }
}

/// Lets a request about benchmarks through, if the token sees the units of all that it names.
fn benchmarks(plane: &Plane, grant: &FolderGrant, request: &Request<'_>) -> Result<(), Error> {
    let config = plane.config();
    let sees = |id: &String| {
        let view = id
            .parse()
            .ok()
            .and_then(|id| plane.benchmarks.view(id).ok());
        view.is_some_and(|view| sees_benchmark(&config, grant, &view))
    };
    match request.at.iter().find(|id| !sees(id)) {
        None => Ok(()),
        // Whether the benchmark exists is not told.
        Some(id) => Err(refused(grant, &format!("a benchmark {id}"))),
    }
}

fn host(grant: &FolderGrant, name: Option<&str>) -> Result<(), Error> {
    match name.is_some_and(|name| grant.hosts.iter().any(|host| host == name)) {
        true => Ok(()),
        false => Err(refused(grant, "a host that is not named with it")),
    }
}

fn change(grant: &FolderGrant, change: &DatasetChange) -> Result<(), Error> {
    let reaches_beyond = match change {
        // Clones may lie anywhere, and the snapshots of an origin move to the clone.
        DatasetChange::Destroy { clones, .. } | DatasetChange::Rollback { clones, .. } => *clones,
        DatasetChange::Promote { .. } => true,
        _ => false,
    };
    if reaches_beyond {
        return Err(refused(
            grant,
            "a change that reaches clones and their origins",
        ));
    }
    let mut names = change.names();
    // The new name of a snapshot may come without its volume, which is then that of the old.
    if let DatasetChange::Rename { from, to, .. } = change
        && to.starts_with('@')
    {
        names = vec![from];
    }
    match names.iter().find(|name| !grant.holds(name)) {
        None => Ok(()),
        Some(beyond) => Err(refused(grant, beyond)),
    }
}

/// Reports whether a token with a folder sees a logical unit.
pub(crate) fn sees_unit(grant: &FolderGrant, unit: &UnitSpec) -> bool {
    unit.backend.volume().is_some_and(|name| grant.holds(name))
}

/// Reports whether a token with a folder sees a benchmark: one of a unit that it sees. A unit that
/// took the name of another one is not that unit.
pub(crate) fn sees_benchmark(config: &Config, grant: &FolderGrant, of: &BenchmarkView) -> bool {
    let unit = config.units.iter().find(|unit| unit.naa == of.naa);
    unit.is_some_and(|unit| sees_unit(grant, unit))
}

/// Reports whether a token with a folder sees a map: that of a unit which it sees.
pub(crate) fn sees_map(config: &Config, grant: &FolderGrant, map: &MapSpec) -> bool {
    config
        .unit(&map.unit)
        .is_some_and(|unit| sees_unit(grant, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant() -> FolderGrant {
        FolderGrant {
            folder: "tank/pve".to_owned(),
            hosts: vec!["pve1".to_owned()],
        }
    }

    fn is_let_through(text: &str) -> bool {
        let parsed: DatasetChange = serde_json::from_str(text).expect(text);
        change(&grant(), &parsed).is_ok()
    }

    #[test]
    fn changes_below_the_folder_are_let_through() {
        for text in [
            r#"{"verb":"create","name":"tank/pve/a","size":4096}"#,
            r#"{"verb":"snapshot","names":["tank/pve/a@x","tank/pve/b@x"]}"#,
            r#"{"verb":"destroy","names":["tank/pve/a"],"recursive":true}"#,
            r#"{"verb":"rollback","snapshot":"tank/pve/a@x"}"#,
            r#"{"verb":"clone","snapshot":"tank/pve/a@x","name":"tank/pve/b"}"#,
            r#"{"verb":"rename","from":"tank/pve/a@x","to":"@y"}"#,
            r#"{"verb":"set","name":"tank/pve/a","properties":{"volsize":"8192"}}"#,
        ] {
            assert!(is_let_through(text), "{text}");
        }
    }

    #[test]
    fn changes_that_reach_beyond_the_folder_are_refused() {
        for text in [
            r#"{"verb":"create","name":"tank/pve","size":null}"#,
            r#"{"verb":"create","name":"tank/pvex/a","size":4096}"#,
            r#"{"verb":"create","name":"pond/pve/a","size":4096}"#,
            r#"{"verb":"snapshot","names":["tank/pve/a@x","tank/db@x"]}"#,
            r#"{"verb":"snapshot","names":["tank/pve@x"],"recursive":true}"#,
            r#"{"verb":"destroy","names":["tank/pve/a"],"clones":true}"#,
            r#"{"verb":"destroy","names":["tank/pve"]}"#,
            r#"{"verb":"rollback","snapshot":"tank/pve/a@x","clones":true}"#,
            r#"{"verb":"clone","snapshot":"tank/db@x","name":"tank/pve/b"}"#,
            r#"{"verb":"clone","snapshot":"tank/pve/a@x","name":"tank/b"}"#,
            r#"{"verb":"rename","from":"tank/pve/a","to":"tank/a"}"#,
            r#"{"verb":"rename","from":"@x","to":"@y"}"#,
            r#"{"verb":"promote","name":"tank/pve/a"}"#,
            r#"{"verb":"set","names":["tank/pve/a","tank"],"properties":{}}"#,
            r#"{"verb":"inherit","name":"tank/pve","property":"compression"}"#,
            r#"{"verb":"hold","tag":"t","names":["tank/db@x"]}"#,
        ] {
            assert!(!is_let_through(text), "{text}");
        }
    }

    #[test]
    fn hosts_and_storage_are_those_of_the_grant() {
        assert!(host(&grant(), Some("pve1")).is_ok());
        for other in [None, Some("esx1"), Some("")] {
            assert!(host(&grant(), other).is_err(), "{other:?}");
        }
        assert!(volume(&grant(), Some("tank/pve/a")).is_ok());
        for other in [None, Some("tank/db"), Some("tank/pve")] {
            assert!(volume(&grant(), other).is_err(), "{other:?}");
        }
    }
}
