//! Whole daemon in this process, with one target on a free port of 127.0.0.1, for tests that cross
//! layers.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use config::history::Note;
use config::store::Store;
use control::ControlAddress;
use initiator::connection::{Connection, Outcome};
use iscsi::initiator::LoginSettings;
use iscsi::pdu::Isid;
use model::config::{
    AluaMode, BackendSpec, Config, MapSpec, PortalGroupSpec, TargetSpec, UnitSpec,
};
use sandstone::console::ConsoleOptions;
use sandstone::daemon::{Daemon, DaemonOptions};

/// Name of the one target.
pub(crate) const TARGET: &str = "iqn.2026-01.io.sandstone:test";
/// Logical block length of every unit.
pub(crate) const BLOCK: usize = 512;

/// Daemon and its portal.
pub(crate) struct Served {
    /// Running daemon.
    pub(crate) daemon: Option<Daemon>,
    /// Portal of the daemon.
    pub(crate) portal: SocketAddr,
    state: tempfile::TempDir,
}

/// Returns a thin unit of this name, with `number` as LUN and last digit of its NAA.
pub(crate) fn unit(name: &str, number: u16, backend: BackendSpec) -> UnitSpec {
    UnitSpec {
        name: name.into(),
        naa: format!("6e00000000000001000000000000000{number}"),
        serial: number.to_string(),
        backend,
        block_size: BLOCK as u32,
        physical_block_size: BLOCK as u32,
        write_cache: false,
        read_only: false,
        thin: true,
        threshold_percent: None,
        offline: false,
    }
}

impl Served {
    /// Serves these units to everyone; the place in the list is the LUN.
    pub(crate) fn start(units: Vec<UnitSpec>) -> Self {
        let state = tempfile::tempdir().unwrap();
        let portal = free_portal();
        {
            let (mut store, mut config) = Store::open(state.path()).unwrap();
            for unit in &units {
                // A file that was never made would be missing, not new.
                if let BackendSpec::File { path, size, .. } = &unit.backend {
                    let path = state.path().join(path);
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::File::create(path).unwrap().set_len(*size).unwrap();
                }
            }
            fill(&mut config, portal, units);
            config.generation += 1;
            store.save(&config, &Note::default()).unwrap();
        }
        let mut served = Self {
            daemon: None,
            portal,
            state,
        };
        served.begin();
        served
    }

    fn begin(&mut self) {
        let options = DaemonOptions {
            state: self.folder().to_owned(),
            control: ControlAddress::Unix(self.folder().join("control.sock")),
            threads: Some(2),
            memory_cap: 64 << 20,
            cache: 64 << 20,
            io_uring: false,
            default_portals: Vec::new(),
            console: ConsoleOptions::off(),
        };
        self.daemon = Some(Daemon::start(options).unwrap());
    }

    /// Stops the daemon in order and starts another one on its state.
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.begin();
    }

    /// Stops the daemon in order.
    pub(crate) fn stop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.stop();
        }
    }

    /// Returns the state folder.
    pub(crate) fn folder(&self) -> &Path {
        self.state.path()
    }

    /// Returns the login settings of initiator port `port`.
    pub(crate) fn settings(&self, port: u8) -> LoginSettings {
        settings(port)
    }

    /// Logs in initiator port `port` and takes its first unit attention.
    pub(crate) fn log_in(&self, port: u8) -> Connection {
        log_in(self.portal, settings(port))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns an address on which nothing listens.
///
/// Its port is below those that the kernel gives to outgoing connections: none of these takes it
/// while a daemon restarts.
pub(crate) fn free_portal() -> SocketAddr {
    loop {
        let number = getrandom::u32().unwrap() % 20_000;
        let portal = SocketAddr::from((Ipv4Addr::LOCALHOST, 10_000 + number as u16));
        if TcpListener::bind(portal).is_ok() {
            return portal;
        }
    }
}

/// Adds these units, the target, and a map of every unit to everyone; the place in the list is the
/// LUN.
pub(crate) fn fill(config: &mut Config, portal: SocketAddr, units: Vec<UnitSpec>) {
    for (lun, unit) in units.iter().enumerate() {
        config.maps.push(MapSpec {
            unit: unit.name.clone(),
            host: None,
            target: None,
            lun: lun as u16,
            read_only: false,
        });
    }
    config.units = units;
    config.targets.push(TargetSpec {
        iqn: TARGET.into(),
        alias: String::new(),
        portal_groups: vec![PortalGroupSpec {
            tag: 1,
            relative_port_id: 1,
            target_port_group: 1,
            portals: vec![portal],
            alua_state: Default::default(),
        }],
        alua: AluaMode::Both,
        redirect: None,
        mutual_chap: None,
        parameters: Default::default(),
        offline: false,
    });
}

/// Returns the login settings of initiator port `port`.
pub(crate) fn settings(port: u8) -> LoginSettings {
    LoginSettings::new(
        "iqn.2026-01.io.sandstone:tester",
        Some(TARGET.to_owned()),
        Isid([0x80, 0, 0, 0, 0, port]),
    )
}

/// Logs in and takes the first unit attention.
pub(crate) fn log_in(portal: SocketAddr, settings: LoginSettings) -> Connection {
    let mut connection = Connection::open(portal, settings).unwrap();
    let told = connection.read(0, &[0; 6], 0).unwrap();
    assert_eq!(told.sense[12], 0x29, "{told:?}");
    connection
}

/// Returns a CDB of 16 bytes with LBA and number of blocks.
pub(crate) fn cdb(opcode: u8, lba: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

/// Sends WRITE(16) to LUN 0.
pub(crate) fn write(connection: &mut Connection, lba: u64, data: &[u8]) -> Outcome {
    let blocks = (data.len() / BLOCK) as u32;
    connection
        .write(0, &cdb(0x8a, lba, blocks), data.to_vec())
        .unwrap()
}

/// Sends READ(16) to LUN 0, and returns the data.
pub(crate) fn read(connection: &mut Connection, lba: u64, blocks: u32) -> Vec<u8> {
    let outcome = connection
        .read(0, &cdb(0x88, lba, blocks), blocks * BLOCK as u32)
        .unwrap();
    assert_eq!(outcome.status, Some(0), "{outcome:?}");
    outcome.data_in
}

/// Sends TEST UNIT READY to LUN 0; returns sense key and additional sense, or `None` for GOOD.
pub(crate) fn test_unit_ready(connection: &mut Connection) -> Option<[u8; 3]> {
    let outcome = connection.read(0, &[0; 6], 0).unwrap();
    sense(&outcome)
}

/// Returns sense key and additional sense of a CHECK CONDITION, or `None` for GOOD.
pub(crate) fn sense(outcome: &Outcome) -> Option<[u8; 3]> {
    match outcome.status {
        Some(0) => None,
        Some(2) => Some([
            outcome.sense[2] & 0x0f,
            outcome.sense[12],
            outcome.sense[13],
        ]),
        other => panic!("status {other:?}"),
    }
}
