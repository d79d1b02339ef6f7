//! Writes whose initiator offers less, or more, data than the CDB speaks of, over a real session: what
//! lands on the unit, and what the residual says (RFC 7143 §11.4.5).

// A test that cannot go on is a test that failed.
#![allow(clippy::unwrap_used)]

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use iscsi::initiator::{LoginSettings, Residual};
use iscsi::pdu::Isid;
use sandstone::config::model::{
    AluaMode, BackendSpec, MapSpec, PortalGroupSpec, TargetSpec, UnitSpec,
};
use sandstone::config::store::Store;
use sandstone::control::ControlAddress;
use sandstone::daemon::{Daemon, DaemonOptions};
use sandstone::initiator::connection::{Connection, Outcome};

const TARGET: &str = "iqn.2026-01.io.sandstone:test";
const BLOCK: usize = 512;
const GOOD: Option<u8> = Some(0);

/// A daemon that serves one unit in memory.
struct Served {
    daemon: Daemon,
    portal: SocketAddr,
    _state: tempfile::TempDir,
}

impl Served {
    fn start() -> Self {
        let state = tempfile::tempdir().unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let portal = free.local_addr().unwrap();
        drop(free);
        {
            let (mut store, mut config) = Store::open(state.path()).unwrap();
            config.units.push(UnitSpec {
                name: "unit".into(),
                naa: "6e000000000000010000000000000001".into(),
                serial: "1".into(),
                backend: BackendSpec::Memory { size: 1 << 20 },
                block_size: BLOCK as u32,
                physical_block_size: BLOCK as u32,
                write_cache: false,
                read_only: false,
                thin: true,
                threshold_percent: None,
                offline: false,
            });
            config.targets.push(TargetSpec {
                iqn: TARGET.into(),
                alias: String::new(),
                portal_groups: vec![PortalGroupSpec {
                    tag: 1,
                    relative_port_id: 1,
                    target_port_group: 1,
                    portals: vec![portal.to_string().parse().unwrap()],
                    alua_state: Default::default(),
                }],
                alua: AluaMode::Both,
                redirect: None,
                mutual_chap: None,
                parameters: Default::default(),
                offline: false,
            });
            config.maps.push(MapSpec {
                unit: "unit".into(),
                host: None,
                target: None,
                lun: 0,
                read_only: false,
            });
            config.generation += 1;
            store.save(&config).unwrap();
        }
        let daemon = Daemon::start(DaemonOptions {
            state: state.path().to_owned(),
            control: ControlAddress::Unix(state.path().join("control.sock")),
            threads: Some(1),
            memory_cap: 64 << 20,
            io_uring: false,
            default_portals: Vec::new(),
        })
        .unwrap();
        Self {
            daemon,
            portal,
            _state: state,
        }
    }

    fn log_in(&self) -> Connection {
        let settings = LoginSettings::new(
            "iqn.2026-01.io.sandstone:tester",
            Some(TARGET.to_owned()),
            Isid([0x80, 0, 0, 0, 0, 1]),
        );
        let mut connection = Connection::open(self.portal, settings).unwrap();
        let told = connection.read(0, &[0; 6], 0).unwrap();
        assert_eq!(told.sense[12..14], [0x29, 0x00], "power on");
        connection
    }
}

fn cdb(opcode: u8, flags: u8, lba: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (opcode, flags);
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

fn read(connection: &mut Connection, lba: u64, blocks: u32) -> Vec<u8> {
    let outcome = connection
        .read(0, &cdb(0x88, 0, lba, blocks), blocks * BLOCK as u32)
        .unwrap();
    assert_eq!(outcome.status, GOOD);
    outcome.data_in
}

fn write(connection: &mut Connection, cdb: &[u8; 16], data: &[u8]) -> Outcome {
    connection.write(0, cdb, data.to_vec()).unwrap()
}

/// WRITE(16), WRITE AND VERIFY(16) without and with a comparison.
const WRITES: [(u8, u8); 3] = [(0x8a, 0), (0x8e, 0), (0x8e, 2)];

#[test]
fn a_short_write_writes_the_whole_blocks_that_were_offered() {
    let served = Served::start();
    let mut connection = served.log_in();
    for (opcode, flags) in WRITES {
        for (wanted, offered, blocks) in [
            (1_u32, 0, 0),
            (1, 200, 0),
            (2, BLOCK, 1),
            (4, 3 * BLOCK + 511, 3),
            // More than one burst, and not from the start of a page.
            (1024, 300 * 1024 + 1, 600),
        ] {
            let all = wanted as usize * BLOCK;
            let before = vec![b'a'; all];
            let full = write(&mut connection, &cdb(0x8a, 0, 9, wanted), &before);
            assert_eq!((full.status, full.residual), (GOOD, Some(Residual::None)));
            let offer = vec![b'b'; offered];
            let outcome = write(&mut connection, &cdb(opcode, flags, 9, wanted), &offer);
            assert_eq!(outcome.status, GOOD, "{:02x?}", outcome.sense);
            let missing = (all - offered) as u32;
            assert_eq!(outcome.residual, Some(Residual::Overflow(missing)));
            let landed = blocks * BLOCK;
            assert_eq!(
                read(&mut connection, 9, wanted),
                [&offer[..landed], &before[landed..]].concat()
            );
        }
    }
    connection.close().unwrap();
    served.daemon.stop();
}

#[test]
fn a_long_write_writes_no_more_than_the_cdb_says() {
    let served = Served::start();
    let mut connection = served.log_in();
    for (opcode, flags) in WRITES {
        let clear = write(&mut connection, &cdb(0x8a, 0, 0, 2), &[b'a'; 2 * BLOCK]);
        assert_eq!(clear.status, GOOD);
        let outcome = write(&mut connection, &cdb(opcode, flags, 0, 1), &[b'b'; 10_000]);
        assert_eq!(outcome.status, GOOD);
        let left = 10_000 - BLOCK as u32;
        assert_eq!(outcome.residual, Some(Residual::Underflow(left)));
        assert_eq!(
            read(&mut connection, 0, 2),
            [[b'b'; BLOCK], [b'a'; BLOCK]].concat()
        );
    }
    connection.close().unwrap();
    served.daemon.stop();
}

#[test]
fn commands_that_are_all_or_nothing_refuse_what_is_short() {
    let served = Served::start();
    let mut connection = served.log_in();
    let mut compare_and_write = [0; 16];
    (compare_and_write[0], compare_and_write[13]) = (0x89, 1);
    // COMPARE AND WRITE, ORWRITE, VERIFY with a comparison, WRITE SAME.
    for (cdb, whole) in [
        (compare_and_write, 2 * BLOCK),
        (cdb(0x8b, 0, 0, 2), 2 * BLOCK),
        (cdb(0x8f, 2, 0, 2), 2 * BLOCK),
        (cdb(0x93, 0, 0, 2), BLOCK),
    ] {
        for offered in [0, whole - 1] {
            let outcome = write(&mut connection, &cdb, &vec![b'b'; offered]);
            assert_eq!(outcome.status, Some(2), "{cdb:02x?} of {offered}");
            assert_eq!(outcome.sense[12..14], [0x0e, 0x03], "{cdb:02x?}");
        }
    }
    assert_eq!(read(&mut connection, 0, 2), [0; 2 * BLOCK]);
    connection.close().unwrap();
    served.daemon.stop();
}
