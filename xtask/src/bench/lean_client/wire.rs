//! Headers of iSCSI that a load generator needs, as bytes (RFC 7143 clause 11).

/// Length of a basic header segment.
pub(super) const HEADER_LEN: usize = 48;

/// Opcodes (RFC 7143 11.2.1.2).
pub(super) mod opcode {
    pub(crate) const NOP_OUT: u8 = 0x00;
    pub(crate) const SCSI_COMMAND: u8 = 0x01;
    pub(crate) const LOGIN: u8 = 0x03;
    pub(crate) const DATA_OUT: u8 = 0x05;
    pub(crate) const NOP_IN: u8 = 0x20;
    pub(crate) const SCSI_RESPONSE: u8 = 0x21;
    pub(crate) const LOGIN_RESPONSE: u8 = 0x23;
    pub(crate) const DATA_IN: u8 = 0x25;
    pub(crate) const R2T: u8 = 0x31;
}

/// Immediate delivery.
pub(super) const IMMEDIATE: u8 = 0x40;
/// F bit.
pub(super) const FINAL: u8 = 0x80;
/// Value for "no tag".
pub(super) const RESERVED_TAG: u32 = 0xffff_ffff;

/// Basic header segment.
#[derive(Clone, Copy)]
pub(super) struct Header(pub [u8; HEADER_LEN]);

impl Header {
    pub(super) fn new(opcode: u8, flags: u8) -> Self {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = opcode;
        bytes[1] = flags;
        Self(bytes)
    }

    /// Reads the first 48 bytes of `bytes`, which must hold them.
    pub(super) fn at(bytes: &[u8]) -> Self {
        let mut header = [0; HEADER_LEN];
        header.copy_from_slice(&bytes[..HEADER_LEN]);
        Self(header)
    }

    /// Builds a SCSI Command with its CDB. EDTL is `transfer` (11.3).
    pub(super) fn scsi_command(lun: u8, tag: u32, flags: u8, transfer: u32, cdb: &[u8]) -> Self {
        let mut header = Self::new(opcode::SCSI_COMMAND, flags);
        header.0[9] = lun;
        header.set_u32(16, tag);
        header.set_u32(20, transfer);
        header.0[32..32 + cdb.len()].copy_from_slice(cdb);
        header
    }

    pub(super) fn opcode(&self) -> u8 {
        self.0[0] & 0x3f
    }

    pub(super) fn flags(&self) -> u8 {
        self.0[1]
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    pub(super) fn set_u32(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// Returns the initiator task tag.
    pub(super) fn tag(&self) -> u32 {
        self.u32(16)
    }

    /// Returns DataSegmentLength.
    pub(super) fn data_len(&self) -> u32 {
        self.u32(4) & 0x00ff_ffff
    }

    pub(super) fn set_data_len(&mut self, len: u32) {
        self.set_u32(4, len);
    }

    /// Returns the number of bytes of additional header segments.
    pub(super) fn additional_len(&self) -> usize {
        usize::from(self.0[4]) * 4
    }

    /// Returns the CRC32C of the header, as it stands on the wire (13.1).
    pub(super) fn digest(&self) -> [u8; 4] {
        crc32c(&self.0)
    }
}

/// Returns the CRC32C as it stands on the wire: least significant byte first.
pub(super) fn crc32c(bytes: &[u8]) -> [u8; 4] {
    crc_fast::crc32_iscsi(bytes).to_le_bytes()
}

/// Builds a READ(10) or WRITE(10) without an LBA.
pub(super) fn transfer_cdb(is_write: bool, blocks: u16) -> [u8; 10] {
    let mut cdb = [0; 10];
    cdb[0] = if is_write { 0x2a } else { 0x28 };
    cdb[7..9].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        // RFC 7143 appendix A.4: 32 bytes of zeros, then 32 bytes of ones.
        assert_eq!(crc32c(&[0; 32]), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(crc32c(&[0xff; 32]), [0x43, 0xab, 0xa8, 0x62]);
    }

    #[test]
    fn commands_carry_their_fields_where_the_standard_puts_them() {
        let header = Header::scsi_command(3, 7, 0xc1, 4096, &transfer_cdb(false, 8));
        assert_eq!(header.opcode(), opcode::SCSI_COMMAND);
        assert_eq!((header.tag(), header.u32(20), header.0[9]), (7, 4096, 3));
        assert_eq!(header.0[32..42], [0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
    }
}
