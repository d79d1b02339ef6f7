//! Commands as an application client writes them. Each function builds one CDB, padded to 16 bytes.

/// Command descriptor block, padded with zeros.
pub type Cdb = [u8; 16];

/// Longest parameter list that a one-byte allocation length can ask for and that a target need not
/// cut.
pub const SHORT_ALLOCATION: u8 = 252;

fn with_opcode(opcode: u8) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb
}

fn transfer_16(opcode: u8, flags: u8, lba: u64, blocks: u32) -> Cdb {
    let mut cdb = with_opcode(opcode);
    cdb[1] = flags;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

/// Builds a TEST UNIT READY (SPC-4 6.47).
pub fn test_unit_ready() -> Cdb {
    with_opcode(0x00)
}

/// Builds an INQUIRY for the standard data (SPC-4 6.6).
pub fn inquiry() -> Cdb {
    let mut cdb = with_opcode(0x12);
    cdb[4] = SHORT_ALLOCATION;
    cdb
}

/// Builds an INQUIRY for a vital product data page (SPC-4 7.8).
pub fn vital_product_data(page: u8) -> Cdb {
    let mut cdb = inquiry();
    (cdb[1], cdb[2]) = (1, page);
    cdb
}

/// Builds a REPORT LUNS for every logical unit but the well-known ones (SPC-4 6.33).
pub fn report_luns(allocation_length: u32) -> Cdb {
    let mut cdb = with_opcode(0xa0);
    cdb[6..10].copy_from_slice(&allocation_length.to_be_bytes());
    cdb
}

/// Builds a READ CAPACITY (16) (SBC-3 5.16).
pub fn read_capacity_16() -> Cdb {
    let mut cdb = with_opcode(0x9e);
    cdb[1] = 0x10;
    cdb[10..14].copy_from_slice(&32u32.to_be_bytes());
    cdb
}

/// Builds a READ CAPACITY (10), for devices that know no other (SBC-3 5.15).
pub fn read_capacity_10() -> Cdb {
    with_opcode(0x25)
}

/// Builds a MODE SENSE (6) for the caching page, without block descriptors (SPC-4 6.11, SBC-3
/// 6.4.5).
pub fn mode_sense_caching() -> Cdb {
    let mut cdb = with_opcode(0x1a);
    (cdb[1], cdb[2], cdb[4]) = (0x08, 0x08, SHORT_ALLOCATION);
    cdb
}

/// Builds a REPORT TARGET PORT GROUPS (SPC-4 6.37).
pub fn report_target_port_groups(allocation_length: u32) -> Cdb {
    let mut cdb = with_opcode(0xa3);
    cdb[1] = 0x0a;
    cdb[6..10].copy_from_slice(&allocation_length.to_be_bytes());
    cdb
}

/// Builds a SET TARGET PORT GROUPS with a parameter list of this length in bytes (SPC-4 6.45).
pub fn set_target_port_groups(parameter_list_length: u32) -> Cdb {
    let mut cdb = with_opcode(0xa4);
    cdb[1] = 0x0a;
    cdb[6..10].copy_from_slice(&parameter_list_length.to_be_bytes());
    cdb
}

/// Builds a PERSISTENT RESERVE IN with this service action (SPC-4 6.15).
pub fn persistent_reserve_in(service_action: u8, allocation_length: u16) -> Cdb {
    let mut cdb = with_opcode(0x5e);
    cdb[1] = service_action;
    cdb[7..9].copy_from_slice(&allocation_length.to_be_bytes());
    cdb
}

/// Builds a PERSISTENT RESERVE OUT with this service action, scope and type, and the basic
/// parameter list (SPC-4 6.16).
pub fn persistent_reserve_out(service_action: u8, scope_and_type: u8, list_length: u32) -> Cdb {
    let mut cdb = with_opcode(0x5f);
    (cdb[1], cdb[2]) = (service_action, scope_and_type);
    cdb[5..9].copy_from_slice(&list_length.to_be_bytes());
    cdb
}

/// Builds a READ (16) (SBC-3 5.13).
#[inline]
pub fn read_16(lba: u64, blocks: u32) -> Cdb {
    transfer_16(0x88, 0, lba, blocks)
}

/// Builds a WRITE (16) (SBC-3 5.37). With `force_unit_access` the write ends once the data is
/// durable.
#[inline]
pub fn write_16(lba: u64, blocks: u32, force_unit_access: bool) -> Cdb {
    transfer_16(0x8a, u8::from(force_unit_access) << 3, lba, blocks)
}

/// Builds a SYNCHRONIZE CACHE (16) of everything, answered once all is durable (SBC-3 5.30).
pub fn synchronize_cache_16() -> Cdb {
    with_opcode(0x91)
}

/// Builds a SYNCHRONIZE CACHE (10) of everything, for devices that know no other (SBC-3 5.29).
pub fn synchronize_cache_10() -> Cdb {
    with_opcode(0x35)
}

/// Builds a WRITE SAME (16) of one block of data (SBC-3 5.46). With `unmap` the device may free the
/// blocks if freed blocks read as this data.
pub fn write_same_16(lba: u64, blocks: u32, unmap: bool) -> Cdb {
    transfer_16(0x93, u8::from(unmap) << 3, lba, blocks)
}

/// Builds a GET LBA STATUS from `lba` on (SBC-3 5.6).
pub fn get_lba_status(lba: u64, allocation_length: u32) -> Cdb {
    transfer_16(0x9e, 0x12, lba, allocation_length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_standard_puts_them() {
        assert_eq!(
            write_16(0x0102_0304_0506_0708, 0x0a0b_0c0d, true),
            [
                0x8a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0x0a, 0x0b, 0x0c, 0x0d, 0, 0
            ]
        );
        assert_eq!(
            read_16(1, 2)[..],
            [0x88, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0]
        );
        assert_eq!(vital_product_data(0x83)[..6], [0x12, 1, 0x83, 0, 252, 0]);
        assert_eq!(get_lba_status(5, 64)[..2], [0x9e, 0x12]);
        assert_eq!(write_same_16(0, 8, true)[1], 8);
        assert_eq!(report_luns(4096)[6..10], [0, 0, 0x10, 0]);
    }
}
