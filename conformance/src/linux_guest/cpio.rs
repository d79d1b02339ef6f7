//! Archives in cpio's "newc" format, which a Linux kernel unpacks as its first file system.

/// Archive that is being written.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    inode: u32,
}

impl Archive {
    /// Adds a folder. Its parents must have been added before.
    pub(crate) fn folder(&mut self, path: &str) {
        self.entry(path, 0o040_755, &[]);
    }

    /// Adds a file with the permissions `mode`.
    pub(crate) fn file(&mut self, path: &str, mode: u32, data: &[u8]) {
        self.entry(path, 0o100_000 | mode, data);
    }

    /// Returns the finished archive. Archives may be laid end to end.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, data: &[u8]) {
        self.inode += 1;
        // The fields are: inode, mode, uid, gid, links, time, size, device (2), special device (2),
        // name, checksum.
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let name = u32::try_from(path.len() + 1).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(b"070701");
        for field in [self.inode, mode, 0, 0, 1, 0, length, 0, 0, 0, 0, name, 0] {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;

    #[test]
    fn an_archive_is_padded_and_ends_with_the_trailer() {
        let mut archive = Archive::default();
        archive.folder("a");
        archive.file("a/b", 0o644, b"hello");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[..6], b"070701");
        // The header has 110 bytes. The name with its NUL, and padding, follow.
        assert_eq!(&bytes[112..118], b"070701");
        assert!(bytes.windows(11).any(|window| window == b"TRAILER!!!\0"));
        assert!(bytes.windows(5).any(|window| window == b"hello"));
    }
}
