//! LUNs without a unit: answers to initiators that try every LUN.

use crate::served::{BLOCK, Served, unit};
use model::config::BackendSpec;

/// SPC-4 6.6.2: qualifier 011b and type 1Fh. Linux before 4.4 finds no further LUN behind a blank
/// vendor.
#[test]
fn inquiry_to_a_lun_without_a_unit_names_vendor_and_product() {
    let memory = BackendSpec::Memory { size: 1 << 20 };
    let served = Served::start(vec![unit("unit", 1, memory)]);
    let mut connection = served.log_in(1);
    let standard = connection.read(0, &[0x12, 0, 0, 0, 36, 0], 36).unwrap();
    // Peripheral addressing, flat addressing, and a well-known LUN.
    for lun in [0x0001, 0x0009, 0x412c, 0xc101] {
        let lun = lun << 48;
        let inquiry = connection.read(lun, &[0x12, 0, 0, 0, 96, 0], 96).unwrap();
        assert_eq!(inquiry.status, Some(0));
        assert_eq!(inquiry.data_in.len(), 36);
        assert_eq!(inquiry.data_in[0], 0x7f, "{lun:x}");
        let names = &standard.data_in[8..];
        assert_eq!(&inquiry.data_in[8..], names, "as a unit names itself");
        assert_ne!(names[0], b' ');
        let cdb = [0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0];
        let read = connection.read(lun, &cdb, BLOCK as u32).unwrap();
        assert_eq!(read.sense[12..14], [0x25, 0], "nothing else is there");
    }
    connection.close().unwrap();
}
