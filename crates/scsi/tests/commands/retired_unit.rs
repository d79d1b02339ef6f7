//! Tests of a unit that is about to leave service. Another unit takes over its stored state, so no
//! command changes that state any more.

use scsi::{BlockError, Status, Step};

use crate::harness::*;

const APTPL: u8 = 1;

/// Returns the commands that change the stored state of a unit, with their data-out.
fn storing(who: &Initiator) -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let mut register = vec![0; 24];
    (register[15], register[20]) = (7, APTPL);
    let register_cdb = |action| vec![0x5F, action, 0, 0, 0, 0, 0, 0, 24, 0];
    let mut preempt = vec![0; 24];
    (preempt[7], preempt[15]) = (7, 8);
    let mut other = register.clone();
    other[15] = 8;
    good(who.device.login(9, 2).run(&register_cdb(0x06), &other));

    let mut control = good(who.run(&[0x1A, 0x08, 0x0A, 0, 255, 0], &[]));
    (control[0], control[2]) = (0, 0);
    // The bit is D_SENSE.
    control[6] |= 4;
    let len = control.len() as u8;
    let mut long_control = vec![0; 8];
    long_control.extend_from_slice(&control[4..]);
    let mut caching = good(who.run(&[0x1A, 0x08, 0x08, 0, 255, 0], &[]));
    (caching[0], caching[2]) = (0, 0);
    // WCE is switched off: the cache is emptied first.
    caching[6] &= !4;
    let caching_len = caching.len() as u8;
    let overwrite = |ause: u8| vec![0x48, ause << 5 | 0x01, 0, 0, 0, 0, 0, 0, 5, 0];
    vec![
        ("REGISTER", register_cdb(0x06), register),
        ("PREEMPT AND ABORT", register_cdb(0x05), preempt),
        (
            "MODE SELECT(6)",
            vec![0x15, 0x11, 0, 0, len, 0],
            control.clone(),
        ),
        (
            "MODE SELECT(10)",
            vec![0x55, 0x11, 0, 0, 0, 0, 0, 0, len + 4, 0],
            long_control,
        ),
        (
            "MODE SELECT(6) of the cache",
            vec![0x15, 0x11, 0, 0, caching_len, 0],
            caching,
        ),
        (
            "SET TARGET PORT GROUPS",
            vec![0xA4, 0x0A, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0],
            vec![0, 0, 0, 0, 2, 0, 0, 2],
        ),
        ("OVERWRITE", overwrite(1), vec![1, 0, 0, 1, b's']),
    ]
}

/// Returns the stored part of the unit's state, without the number of its image.
fn stored(device: &Device) -> Vec<u8> {
    device.units[0].image_to_save()[16..].to_vec()
}

fn is_busy_while_retired(who: &Initiator, name: &str, cdb: &[u8], data: &[u8]) {
    let (device, unit) = (&who.device, &who.device.units[0]);
    let before = stored(device);
    *device.saved.lock().unwrap() = None;
    assert!(unit.retire(), "{name}");
    assert_eq!(who.run(cdb, data).status, Status::Busy, "{name}");
    assert!(device.saved.lock().unwrap().is_none(), "{name}");
    assert!(device.aborts.lock().unwrap().is_empty(), "{name}");
    assert_eq!(stored(device), before, "{name}");
    // The unit stays in service after all.
    unit.serve_on();
    good(who.run(cdb, data));
    let saved = device.saved.lock().unwrap().take();
    assert!(saved.is_some(), "{name} stores nothing");
}

#[test]
fn no_command_changes_what_is_stored_of_a_unit_that_retires() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    let commands = storing(&a);
    for (name, cdb, data) in &commands {
        is_busy_while_retired(&a, name, cdb, data);
        device.aborts.lock().unwrap().clear();
    }
    // A SANITIZE fails.
    let gone = (device.units[0].config().naa, BlockError::Gone);
    *device.fail_writes.lock().unwrap() = Some(gone);
    let (_, overwrite, pattern) = &commands[commands.len() - 1];
    let failed = a.run(overwrite, pattern);
    assert_eq!(failed.status, Status::CheckCondition);
    let exit = [0x48, 0x1F, 0, 0, 0, 0, 0, 0, 0, 0];
    is_busy_while_retired(&a, "EXIT FAILURE MODE", &exit, &[]);
}

#[test]
fn a_unit_that_retires_while_its_cache_is_emptied_saves_no_mode_page() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    let before = stored(&device);
    let commands = storing(&a);
    let (_, cdb, data) = &commands[4];
    *device.before_step.lock().unwrap() = Some(Box::new(|device, step| {
        if matches!(step, Step::Flush) {
            assert!(device.units[0].retire());
        }
    }));
    let registered = stored(&device);
    assert_ne!(registered, before, "the other initiator registered");
    assert_eq!(a.run(cdb, data).status, Status::Busy);
    assert_eq!(stored(&device), registered);
    assert!(device.units[0].tells_write_cache());
}

#[test]
fn mode_parameters_that_are_not_saved_change_until_the_end() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    let commands = storing(&a);
    let (_, cdb, data) = &commands[2];
    assert!(device.units[0].retire());
    let mut for_now = cdb.clone();
    for_now[1] = 0x10;
    good(a.run(&for_now, data));
    assert_eq!(a.run(cdb, data).status, Status::Busy);
}
