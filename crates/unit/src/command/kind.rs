//! Kind of a command, by its CDB, for the figures.

use model::figures::CommandKind;

/// Returns the kind of a command. Commands that are more than a plain READ or WRITE, such as WRITE
/// AND VERIFY, are others.
pub fn of(cdb: &[u8]) -> CommandKind {
    match cdb {
        // READ (6), (10), (12), (16).
        [0x08 | 0x28 | 0xA8 | 0x88, ..] => CommandKind::Read,
        // WRITE (6), (10), (12), (16).
        [0x0A | 0x2A | 0xAA | 0x8A, ..] => CommandKind::Write,
        // UNMAP.
        [0x42, ..] => CommandKind::Discard,
        // WRITE SAME (10), (16), with the UNMAP bit.
        [0x41 | 0x93, flags, ..] if flags & 0x08 != 0 => CommandKind::Discard,
        // SYNCHRONIZE CACHE (10), (16).
        [0x35 | 0x91, ..] => CommandKind::Flush,
        // RESERVE (6), (10); PERSISTENT RESERVE OUT.
        [0x16 | 0x56 | 0x5F, ..] => CommandKind::Reserve,
        _ => CommandKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_same_frees_blocks_only_if_it_says_so() {
        assert_eq!(of(&[0x93, 0x08]), CommandKind::Discard);
        assert_eq!(of(&[0x93, 0x00]), CommandKind::Other);
        assert_eq!(of(&[0x93]), CommandKind::Other);
        assert_eq!(of(&[]), CommandKind::Other);
    }
}
