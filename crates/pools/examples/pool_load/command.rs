//! Commands of the benchmark: create files and pools, change datasets, run loads.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::BlockDevice;
use block::file::{FileDevice, FileOptions};
use pools::{Disks, Pools, PoolsOptions};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::load::{self, Load};
use model::pool::create::CreatePool;
use model::pool::dataset::change::DatasetChange;
use model::pool::import::ImportPool;
use model::pool::scan::ScrubAction;
use model::pool::vdev_change::VdevChange;

const FILE_OPTIONS: FileOptions = FileOptions {
    block_size: 4096,
    preallocate: true,
    direct: true,
};

/// Command of the benchmark.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Command {
    /// Creates a file with every byte written, unless it exists.
    Make { path: PathBuf, len: u64 },
    /// Opens a file under a name.
    Open { name: String, path: PathBuf },
    /// Closes the file of this name.
    Close { name: String },
    /// Creates a pool.
    Create(CreatePool),
    /// Imports a pool.
    Import(ImportPool),
    /// Destroys a pool and forgets its volumes.
    Destroy { pool: String },
    /// Changes datasets.
    Change(DatasetChange),
    /// Changes the devices of a pool.
    Vdevs { pool: String, change: VdevChange },
    /// Waits until a scrub or resilver ends, and reports it.
    Await { pool: String },
    /// Starts a scrub.
    Scrub { pool: String },
    /// Runs loads, all at one time.
    Load { loads: Vec<Load> },
    /// Reports whether all data that a load wrote is there.
    Verify { load: Load },
    /// Reports the status of a pool.
    Status { pool: String },
}

/// Device or file that loads may name.
pub(crate) struct Target {
    pub(crate) device: Arc<dyn BlockDevice>,
    /// Plain file, to be synced as programs do it, without a thread in between.
    pub(crate) file: Option<File>,
}

/// Pools and files in use.
pub(crate) struct Bench {
    pools: Arc<Pools>,
    files: BTreeMap<String, Arc<Target>>,
}

impl Bench {
    pub(crate) fn start(state: PathBuf, cache: usize) -> Result<Self, String> {
        let options = PoolsOptions {
            state,
            installation: "bench".to_owned(),
            cache,
            io_uring: true,
            disks: Disks::default(),
            events: Default::default(),
        };
        Ok(Self {
            pools: Pools::start(options),
            files: BTreeMap::new(),
        })
    }

    pub(crate) fn close(&self) {
        self.pools.close();
    }

    /// Obeys a command. Returns its result, with the seconds that it took.
    pub(crate) fn obey(&mut self, command: Command) -> Result<Value, String> {
        let start = Instant::now();
        let mut brought = json!({});
        match command {
            Command::Make { path, len } => make(&path, len)?,
            Command::Open { name, path } => {
                let device = FileDevice::open(&path, FILE_OPTIONS);
                let device = device.map_err(|error| error.message().to_owned())?;
                let file = File::options().write(true).open(&path);
                let target = Target {
                    device: Arc::new(device),
                    file: Some(file.map_err(|error| error.to_string())?),
                };
                self.files.insert(name, Arc::new(target));
            }
            Command::Close { name } => drop(self.files.remove(&name)),
            Command::Create(pool) => self.pools.create(&pool).map_err(|e| e.message)?,
            Command::Import(pool) => {
                brought = json!({ "pool": self.pools.import(&pool).map_err(|e| e.message)? });
            }
            Command::Destroy { pool } => self.pools.destroy(&pool).map_err(|e| e.message)?,
            Command::Change(change) => {
                self.pools.change(&change).map_err(|e| e.message)?;
            }
            Command::Vdevs { pool, change } => {
                let changed = self.pools.change_vdevs(&pool, &change);
                changed.map_err(|error| error.message)?;
            }
            Command::Scrub { pool } => {
                let begun = self.pools.scrub(&pool, ScrubAction::Start);
                begun.map_err(|error| error.message)?;
            }
            Command::Verify { load } => {
                let (right, wrong) = load::verify(&load, &*self.target(&load.target)?)?;
                brought = json!({ "right": right, "wrong": wrong });
            }
            Command::Await { pool } => brought = self.await_scan(&pool)?,
            Command::Load { loads } => {
                let targets: Result<Vec<_>, _> =
                    loads.iter().map(|load| self.target(&load.target)).collect();
                brought = json!({ "results": load::run(loads, targets?, &self.pools)? });
            }
            Command::Status { pool } => {
                let view = self.pools.view(&pool).map_err(|error| error.message)?;
                brought = serde_json::to_value(view).map_err(|error| error.to_string())?;
            }
        }
        if let Value::Object(fields) = &mut brought {
            fields.insert("took_s".to_owned(), json!(start.elapsed().as_secs_f64()));
        }
        Ok(brought)
    }

    fn await_scan(&self, pool: &str) -> Result<Value, String> {
        loop {
            let view = self.pools.view(pool).map_err(|error| error.message)?;
            match view.scan_status {
                Some(scan) if scan.ended_s == 0 => std::thread::sleep(Duration::from_millis(5)),
                scan => return serde_json::to_value(scan).map_err(|error| error.to_string()),
            }
        }
    }

    fn target(&self, name: &str) -> Result<Arc<Target>, String> {
        if let Some(file) = self.files.get(name) {
            return Ok(Arc::clone(file));
        }
        let volume = self.pools.open_volume(name, 4096);
        let volume = volume.map_err(|error| error.message().to_owned())?;
        Ok(Arc::new(Target {
            device: Arc::new(volume),
            file: None,
        }))
    }
}

/// Creates a file so that overwriting its blocks needs no more work of the file system.
fn make(path: &Path, len: u64) -> Result<(), String> {
    if !path.exists() {
        let made = FileDevice::create(path, len, FILE_OPTIONS);
        made.map_err(|error| error.message().to_owned())?;
        let device = FileDevice::open(path, FILE_OPTIONS);
        let device = device.map_err(|error| error.message().to_owned())?;
        load::write_all(&device)?;
    }
    Ok(())
}
