//! The daemon of an experiment: a state folder of its own, one target, and units, in the target's
//! namespace. Three units always exist. Volumes, and the pool that holds them, are created for the
//! experiments that use them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::command::{Running, inside};
use super::error::LabError;
use super::experiments::Variant;
use super::network::{Network, PREFIX};
use block::file::{FileDevice, FileOptions};
use config::change::{AddMap, CreateUnit, NewVolume};
use config::history::Note;
use config::store::Store;
use control::address::SOCKET_NAME;
use control::endpoint::volume::How;
use control::endpoint::{lu, map, pool, status, volume};
use control::transaction::Commit;
use control::transaction::Committed;
use control::{Client, ControlAddress};
use model::Error;
use model::config::{
    AluaMode, BackendSpec, Config, MapSpec, PortalGroupSpec, TargetParameters, TargetSpec, UnitSpec,
};
use model::pool::create::CreatePool;
use model::pool::dataset::Changed;
use model::pool::dataset::change::DatasetChange;
use model::pool::status::PoolView;
use model::pool::vdev_request::{VdevKind, VdevRequest};

const TARGET: &str = "iqn.2026-01.io.sandstone:lab";
const PORT: u16 = 3260;
const UNIT_BYTES: u64 = 256 << 20;
const POOL: &str = "lab";
/// Size of the pool's file, which takes only the space that is written.
const POOL_BYTES: u64 = 8 << 30;
const START_LIMIT: Duration = Duration::from_secs(30);

/// Storage beneath a unit. The unit's place in the list is its LUN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Memory, which is as fast as possible, so that the network shows.
    Memory,
    /// A file whose writes are acknowledged when they are durable.
    WriteThrough,
    /// A file whose writes are acknowledged from cache.
    WriteBack,
    /// A volume of a pool on one file.
    Volume(Volume),
}

/// Properties with which a volume is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Property `volblocksize`, in bytes.
    pub block_size: u32,
    /// Property `sync`.
    pub sync: &'static str,
    /// Property `checksum`.
    pub checksum: &'static str,
    /// Property `primarycache`.
    pub primary_cache: &'static str,
    /// Whether the volume's unit acknowledges writes from cache.
    pub write_cache: bool,
}

impl Volume {
    /// Default properties of volumes.
    pub const NORMAL: Self = Self {
        block_size: 16 << 10,
        sync: "standard",
        checksum: "on",
        primary_cache: "all",
        write_cache: false,
    };
}

impl Unit {
    /// Units that always exist.
    const ALL: [Self; 3] = [Self::Memory, Self::WriteThrough, Self::WriteBack];

    /// Returns the configuration of one of [`Unit::ALL`].
    fn spec(self, lun: usize) -> UnitSpec {
        let backend = if self == Self::Memory {
            BackendSpec::memory(UNIT_BYTES)
        } else {
            BackendSpec::reserved_file(format!("unit-{lun}.img"), UNIT_BYTES)
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

/// Returns the folder for state folders. It is on a disk if there is one, because /tmp may be
/// memory.
pub(super) fn folder() -> PathBuf {
    let disk = Path::new("/var/tmp");
    if disk.is_dir() {
        return disk.to_owned();
    }
    std::env::temp_dir()
}

/// Running daemon. On drop it ends, and its state is removed.
#[derive(Debug)]
pub(super) struct Target {
    portals: Vec<std::net::SocketAddr>,
    /// Units; the index of each is its LUN.
    units: Vec<Unit>,
    // The daemon ends before its folder is removed.
    running: Option<Running>,
    state: PathBuf,
}

impl Target {
    /// Starts a daemon that serves the units of these variants.
    pub(super) fn start(network: &Network, variants: &[Variant]) -> Result<Self, LabError> {
        let state = folder().join(format!("{PREFIX}{}-state", std::process::id()));
        fs::create_dir(&state).map_err(LabError::system(format!("make {}", state.display())))?;
        let mut target = Self {
            portals: network.portals(PORT),
            units: Unit::ALL.to_vec(),
            running: None,
            state,
        };
        target.configure()?;
        let words = ["serve", "--log", "error", "--state"].map(str::to_owned);
        let mut words = words.to_vec();
        words.push(target.state.to_string_lossy().into_owned());
        target.running = Some(Running::start(inside(&network.target, &words)?)?);
        target.wait()?;
        for variant in variants {
            if let Unit::Volume(volume) = variant.unit
                && !target.units.contains(&variant.unit)
            {
                target.add_volume(volume)?;
            }
        }
        Ok(target)
    }

    fn client(&self) -> Client {
        Client::new(ControlAddress::Unix(self.state.join(SOCKET_NAME)))
    }

    /// Creates a volume with a unit and its map. The first volume also creates the pool.
    fn add_volume(&mut self, volume: Volume) -> Result<(), LabError> {
        let client = self.client();
        if self.units.len() == Unit::ALL.len() {
            let pool = CreatePool {
                name: POOL.to_owned(),
                vdevs: vec![VdevRequest {
                    kind: VdevKind::Disk,
                    paths: vec![self.state.join("disk.img")],
                }],
                logs: Vec::new(),
                caches: Vec::new(),
                spares: Vec::new(),
                force: false,
                multihost: None,
                file_size: Some(POOL_BYTES),
                dry_run: false,
            };
            let _: PoolView = client
                .ask(&pool::CREATE, &[], &(), &pool)
                .map_err(refused)?;
        }
        let lun = self.units.len();
        let (unit, name) = (format!("unit-{lun}"), format!("{POOL}/unit-{lun}"));
        let create = CreateUnit {
            name: unit.clone(),
            backend: BackendSpec::on_volume(&name),
            block_size: 512,
            physical_block_size: Some(4096),
            new_volume: Some(NewVolume {
                size: UNIT_BYTES,
                block_size: Some(volume.block_size),
                reserve: false,
            }),
            write_cache: volume.write_cache,
            read_only: false,
            thin: None,
            threshold_percent: None,
            naa: None,
            serial: None,
        };
        let _: Committed = client
            .ask(&lu::CREATE, &[], &Commit::default(), &create)
            .map_err(refused)?;
        let properties = [
            ("sync", volume.sync),
            ("checksum", volume.checksum),
            ("primarycache", volume.primary_cache),
        ];
        let set = DatasetChange::Set {
            names: vec![name],
            properties: properties
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            shrink: false,
        };
        let _: Changed = client
            .ask(&volume::CHANGE, &[], &How::default(), &set)
            .map_err(refused)?;
        let map = AddMap {
            unit,
            host: None,
            target: None,
            lun: Some(lun as u16),
            read_only: false,
        };
        let _: Committed = client
            .ask(&map::ADD, &[], &Commit::default(), &map)
            .map_err(refused)?;
        self.units.push(Unit::Volume(volume));
        Ok(())
    }

    fn configure(&self) -> Result<(), LabError> {
        for (lun, unit) in Unit::ALL.into_iter().enumerate() {
            if let Some(path) = unit.spec(lun).backend.path(&self.state) {
                let options = FileOptions {
                    block_size: 512,
                    preallocate: true,
                    direct: true,
                };
                FileDevice::create(&path, UNIT_BYTES, options)
                    .map_err(|error| LabError::Invalid(error.to_string()))?;
            }
        }
        let failed = |error: Error| LabError::Invalid(error.to_string());
        let (mut store, mut config) = Store::open(&self.state).map_err(failed)?;
        self.fill(&mut config);
        config.generation += 1;
        let note = Note::now("the lab was made");
        store.save(&config, &note).map_err(failed)
    }

    fn fill(&self, config: &mut Config) {
        for (lun, unit) in Unit::ALL.into_iter().enumerate() {
            let spec = unit.spec(lun);
            config.maps.push(MapSpec {
                unit: spec.name.clone(),
                host: None,
                target: None,
                lun: lun as u16,
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
            parameters: TargetParameters {
                // The deepest queue of the experiments must reach the device.
                queue_depth: Some(256),
                ..TargetParameters::default()
            },
            offline: false,
        });
    }

    /// Waits until the daemon answers. Its control socket is a file, so the namespace does not
    /// matter.
    fn wait(&mut self) -> Result<(), LabError> {
        let client = self.client();
        let end = Instant::now() + START_LIMIT;
        loop {
            if client.call(&status::STATUS, &[]).is_ok() {
                return Ok(());
            }
            let ended = self.running.as_mut().is_none_or(Running::has_ended);
            if ended || Instant::now() >= end {
                return Err(LabError::Invalid(
                    "the daemon of the lab did not start".to_owned(),
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the URL of a unit over the first `paths` links, with these options.
    pub(super) fn url(&self, unit: Unit, paths: usize, options: &str) -> String {
        let mut portals = self.portals.iter().take(paths.max(1));
        let first = portals.next().map(ToString::to_string).unwrap_or_default();
        // Every unit of a variant exists.
        let lun = self.units.iter().position(|one| *one == unit).unwrap_or(0);
        let mut url = format!("iscsi://{first}/{TARGET}/{lun}?{options}");
        for portal in portals {
            url.push_str(&format!("&portal={portal}"));
        }
        url
    }
}

fn refused(error: Error) -> LabError {
    LabError::Invalid(format!("{error}; {}", error.next))
}

impl Drop for Target {
    fn drop(&mut self) {
        self.running = None;
        // The folder was created for this lab, and nobody else knows it. If it stays, the next lab
        // removes it.
        let _ = fs::remove_dir_all(&self.state);
    }
}
