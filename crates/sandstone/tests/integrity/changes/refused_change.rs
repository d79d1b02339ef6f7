//! A change of the configuration that is refused late leaves nothing behind of its earlier work.

use std::net::TcpListener;

use model::config::{BackendSpec, Config};

use crate::losses::late_write::BLOCK;
use crate::rig::process::{file_unit, free_portal};
use crate::rig::served::{Served, limits};

/// Adds a unit on a file of the state folder.
fn add(config: &mut Config, lun: u16, path: &str) {
    let (mut unit, map) = file_unit(lun, 8, BLOCK as u32, true);
    unit.backend = BackendSpec::File {
        path: path.into(),
        size: 8 * BLOCK as u64,
        preallocate: false,
    };
    config.units.push(unit);
    config.maps.push(map);
}

/// Gives the unit with this LUN another number of blocks.
fn set_blocks(config: &mut Config, lun: usize, blocks: u64) {
    let BackendSpec::File { size, .. } = &mut config.units[lun].backend else {
        panic!("not a file");
    };
    *size = blocks * BLOCK as u64;
}

#[test]
fn files_that_were_made_longer_for_it_have_their_length_again() {
    let mut served = Served::start(&[free_portal()], Vec::new(), Vec::new(), limits());
    let first = served.folder().join("first.img");
    let longer = served.folder().join("longer.img");
    std::fs::write(&first, vec![7; 8 * BLOCK]).unwrap();
    // The file has one more block than its unit: its owner may want that block.
    std::fs::write(&longer, vec![7; 9 * BLOCK]).unwrap();
    served.change(|config| {
        add(config, 0, "first.img");
        add(config, 1, "longer.img");
        add(config, 2, "last.img");
    });
    let refused = served.try_change(|config| {
        set_blocks(config, 0, 16);
        set_blocks(config, 1, 16);
        set_blocks(config, 2, 4);
    });
    let message = refused.unwrap_err().message;
    assert_eq!(message, "it cannot be made smaller");
    assert!(std::fs::read(&first).unwrap() == [7; 8 * BLOCK]);
    assert!(std::fs::read(&longer).unwrap() == [7; 9 * BLOCK]);
    // An accepted change makes them longer.
    served.change(|config| set_blocks(config, 0, 16));
    let grown = std::fs::read(&first).unwrap();
    assert!(grown == [[7; 8 * BLOCK], [0; 8 * BLOCK]].concat());
    served.stop();
}

#[test]
fn files_that_were_made_for_it_go_and_no_others() {
    let mut served = Served::start(&[free_portal()], Vec::new(), Vec::new(), limits());
    let [older, new] = ["older.img", "new.img"].map(|name| served.folder().join(name));
    std::fs::write(&older, vec![7; 8 * BLOCK]).unwrap();
    // Another program listens there already.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let refused = served.try_change(|config| {
        add(config, 0, "older.img");
        add(config, 1, "new.img");
        config.targets[0].portal_groups[0].portals.push(address);
    });
    assert_eq!(refused.unwrap_err().object, format!("portal {address}"));
    assert!(!new.exists(), "it was made for this change");
    assert_eq!(std::fs::read(&older).unwrap(), [7; 8 * BLOCK]);
    // Without that portal nothing is in the way, and the earlier changes stay.
    served.change(|config| {
        add(config, 0, "older.img");
        add(config, 1, "new.img");
    });
    assert!(new.exists());
    served.stop();
}
