//! LUNs without a unit: what initiators that begin at LUN 0 are told there.

use crate::served::{BLOCK, Served, unit};
use sandstone::config::model::BackendSpec;

/// SPC-4 6.6.2: qualifier 011b and type 1Fh. Linux before 4.4 finds no further LUN behind a blank vendor.
#[test]
fn inquiry_to_a_lun_without_a_unit_names_vendor_and_product() {
    let memory = || BackendSpec::Memory { size: 1 << 20 };
    let none = Served::start(Vec::new());
    let one = Served::start(vec![unit("unit", 1, memory())]);
    let settings = one.settings(1);
    let mut with_unit = one.log_in(1);
    let standard = with_unit.read(0, &[0x12, 0, 0, 0, 36, 0], 36).unwrap().data;
    let mut without =
        sandstone::initiator::connection::Connection::open(none.portal, settings).unwrap();
    for (connection, lun) in [(&mut without, 0), (&mut without, 9), (&mut with_unit, 1)] {
        let lun = lun << 48;
        let inquiry = connection.read(lun, &[0x12, 0, 0, 0, 96, 0], 96).unwrap();
        assert_eq!(inquiry.status, Some(0));
        assert_eq!((inquiry.data[0], inquiry.data.len()), (0x7f, 36));
        assert_eq!(inquiry.data[8..], standard[8..], "as a unit names itself");
        assert!(inquiry.data[8..36].iter().all(u8::is_ascii_graphic) || inquiry.data[8] != b' ');
        let read = connection
            .read(lun, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0], BLOCK as u32)
            .unwrap();
        assert_eq!(read.sense[12..14], [0x25, 0], "nothing else is there");
    }
}
