//! The daemon of an experiment: a state folder of its own, one target, three units, in the target's namespace.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::command::{Running, inside};
use super::error::LabError;
use super::network::{Network, PREFIX};
use crate::block::file::{FileDevice, FileOptions};
use crate::config::model::{
    AluaMode, BackendSpec, Config, MapSpec, PortalGroupSpec, TargetSpec, UnitSpec,
};
use crate::config::store::Store;
use crate::control::address::SOCKET_NAME;
use crate::control::{Client, ControlAddress};

const TARGET: &str = "iqn.2026-01.io.sandstone:lab";
const PORT: u16 = 3260;
const UNIT_BYTES: u64 = 256 << 20;
const START_LIMIT: Duration = Duration::from_secs(30);

/// What a unit is made of; its place in the list is its LUN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Memory: as fast as it gets, so that the network shows.
    Memory,
    /// A file whose writes are acknowledged when they are durable.
    WriteThrough,
    /// A file whose writes are acknowledged from cache.
    WriteBack,
}

impl Unit {
    const ALL: [Self; 3] = [Self::Memory, Self::WriteThrough, Self::WriteBack];

    fn lun(self) -> usize {
        Self::ALL.iter().position(|unit| *unit == self).unwrap_or(0)
    }

    fn spec(self) -> UnitSpec {
        let lun = self.lun();
        let backend = match self {
            Self::Memory => BackendSpec::Memory { size: UNIT_BYTES },
            Self::WriteThrough | Self::WriteBack => BackendSpec::File {
                path: format!("unit-{lun}.img").into(),
                size: UNIT_BYTES,
                preallocate: true,
            },
        };
        UnitSpec {
            name: format!("unit-{lun}"),
            naa: format!("6e0000000000000b00000000000000{lun:02}"),
            serial: format!("lab-{lun}"),
            backend,
            block_size: 512,
            physical_block_size: 4096,
            write_cache: self != Self::WriteThrough,
            read_only: false,
            thin: false,
            threshold_percent: None,
            offline: false,
        }
    }
}

/// Where state folders are: on a disk where there is one, because /tmp may be memory.
pub(super) fn folder() -> PathBuf {
    let disk = Path::new("/var/tmp");
    if disk.is_dir() {
        return disk.to_owned();
    }
    std::env::temp_dir()
}

/// A running daemon; it and its state are gone when dropped.
#[derive(Debug)]
pub(super) struct Target {
    portals: Vec<std::net::SocketAddr>,
    // Ended before its folder is removed.
    running: Option<Running>,
    state: PathBuf,
}

impl Target {
    pub(super) fn start(network: &Network) -> Result<Self, LabError> {
        let state = folder().join(format!("{PREFIX}{}-state", std::process::id()));
        fs::create_dir(&state).map_err(LabError::system(format!("make {}", state.display())))?;
        let mut target = Self {
            portals: network.portals(PORT),
            running: None,
            state,
        };
        target.configure()?;
        let words = ["serve", "--log", "error", "--state"].map(str::to_owned);
        let mut words = words.to_vec();
        words.push(target.state.to_string_lossy().into_owned());
        target.running = Some(Running::start(inside(&network.target, &words)?)?);
        target.wait()?;
        Ok(target)
    }

    fn configure(&self) -> Result<(), LabError> {
        for unit in Unit::ALL {
            if let BackendSpec::File { path, size, .. } = unit.spec().backend {
                let path = self.state.join(path);
                let options = FileOptions {
                    block_size: 512,
                    preallocate: true,
                    direct: true,
                };
                FileDevice::create(&path, size, options)
                    .map_err(|error| LabError::Invalid(error.to_string()))?;
            }
        }
        let failed = |error: crate::config::Error| LabError::Invalid(error.to_string());
        let (mut store, mut config) = Store::open(&self.state).map_err(failed)?;
        self.fill(&mut config);
        config.generation += 1;
        store.save(&config).map_err(failed)
    }

    fn fill(&self, config: &mut Config) {
        for unit in Unit::ALL {
            let spec = unit.spec();
            config.maps.push(MapSpec {
                unit: spec.name.clone(),
                host: None,
                target: None,
                lun: unit.lun() as u16,
                read_only: false,
            });
            config.units.push(spec);
        }
        config.targets.push(TargetSpec {
            iqn: TARGET.to_owned(),
            alias: String::new(),
            portal_groups: vec![PortalGroupSpec {
                tag: 1,
                relative_port_id: 1,
                target_port_group: 1,
                portals: self.portals.clone(),
                alua_state: Default::default(),
            }],
            alua: AluaMode::Both,
            redirect: None,
            mutual_chap: None,
            parameters: Default::default(),
            offline: false,
        });
    }

    /// Until it answers. Its control socket is a file, so the namespace does not matter.
    fn wait(&mut self) -> Result<(), LabError> {
        let client = Client::new(ControlAddress::Unix(self.state.join(SOCKET_NAME)));
        let end = Instant::now() + START_LIMIT;
        loop {
            if client.text("/v1/status").is_ok() {
                return Ok(());
            }
            let ended = self.running.as_mut().is_none_or(Running::has_ended);
            if ended || Instant::now() >= end {
                return Err(LabError::Invalid(
                    "the daemon of the lab did not come up".to_owned(),
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The URL of a unit over the first `paths` links, with these options.
    pub(super) fn url(&self, unit: Unit, paths: usize, options: &str) -> String {
        let mut portals = self.portals.iter().take(paths.max(1));
        let first = portals.next().map(ToString::to_string).unwrap_or_default();
        let mut url = format!("iscsi://{first}/{TARGET}/{}?{options}", unit.lun());
        for portal in portals {
            url.push_str(&format!("&portal={portal}"));
        }
        url
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.running = None;
        // It was made for this lab and nobody else knows it; the next lab removes what stays.
        let _ = fs::remove_dir_all(&self.state);
    }
}
