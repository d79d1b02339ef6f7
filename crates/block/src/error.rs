//! Errors of block requests: a small stable kind, a context, a source.

use std::borrow::Cow;
use std::fmt;
use std::io;

use hint::Cause;

/// Meaning of a failure for the requester. Each kind becomes one sense code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockErrorKind {
    /// The bytes could not be read back.
    Medium,
    /// A write or a flush failed; the present content of the range is unknown.
    Write,
    /// The space for the write is missing; no acknowledged data is lost.
    NoSpace,
    /// The device refuses writes.
    ReadOnly,
    /// A different host has reserved the device for itself; the request was not carried out.
    Reserved,
    /// The device vanished, shrank, or the daemon lost its hold on it.
    Gone,
    /// The storage beneath the device is away, and will be used again by itself when it is back. A
    /// repeated request may succeed then.
    Away,
    /// The request lies outside the capacity, which may have shrunk since the range was checked.
    OutOfRange,
    /// The request broke a rule of [`super::BlockDevice`]: it is no multiple of the granularity,
    /// say.
    Invalid,
}

impl BlockErrorKind {
    fn words(self) -> &'static str {
        match self {
            Self::Medium => "read failed",
            Self::Write => "write failed",
            Self::NoSpace => "no space left",
            Self::ReadOnly => "device is read-only",
            Self::Reserved => "another host has reserved the device",
            Self::Gone => "device is gone",
            Self::Away => "device is temporarily away",
            Self::OutOfRange => "outside the device",
            Self::Invalid => "invalid request",
        }
    }
}

/// A failed block request. The error is one pointer, so that success stays cheap to return.
#[derive(Debug)]
pub struct BlockError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: BlockErrorKind,
    context: Cow<'static, str>,
    offset: Option<u64>,
    source: Option<io::Error>,
}

impl BlockError {
    /// Creates a failure of this kind. `context` names the operation.
    #[cold]
    pub fn new(kind: BlockErrorKind, context: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            context: context.into(),
            offset: None,
            source: None,
        }))
    }

    /// Translates a failed system call of a read.
    #[cold]
    pub fn reading(source: io::Error, context: impl Into<Cow<'static, str>>) -> Self {
        Self::from_io(source, BlockErrorKind::Medium, context)
    }

    /// Translates a failed system call of a write, flush or discard.
    #[cold]
    pub fn writing(source: io::Error, context: impl Into<Cow<'static, str>>) -> Self {
        Self::from_io(source, BlockErrorKind::Write, context)
    }

    /// Returns the cause that selects the hint for this error.
    pub fn cause(&self) -> Cause {
        let source = std::error::Error::source(self);
        let source = source.and_then(|source| source.downcast_ref());
        match (self.kind(), source.map(Cause::of)) {
            (BlockErrorKind::NoSpace, _) => Cause::Full,
            (BlockErrorKind::ReadOnly, _) => Cause::ReadOnly,
            (BlockErrorKind::Reserved, _) => Cause::Reserved,
            (BlockErrorKind::Gone, _) => Cause::Gone,
            (BlockErrorKind::Away, _) => Cause::Away,
            (BlockErrorKind::OutOfRange, _) => Cause::Shrunk,
            (BlockErrorKind::Medium | BlockErrorKind::Write, None | Some(Cause::Other)) => {
                Cause::Medium
            }
            (BlockErrorKind::Medium | BlockErrorKind::Write, Some(cause)) => cause,
            (BlockErrorKind::Invalid, _) => Cause::Other,
        }
    }

    fn from_io(
        source: io::Error,
        otherwise: BlockErrorKind,
        context: impl Into<Cow<'static, str>>,
    ) -> Self {
        use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        // ENXIO, ENODEV: the node's device was removed.
        const GONE: [i32; 2] = [6, 19];
        let kind = match source.kind() {
            StorageFull | QuotaExceeded => BlockErrorKind::NoSpace,
            ReadOnlyFilesystem => BlockErrorKind::ReadOnly,
            _ if source
                .raw_os_error()
                .is_some_and(|errno| GONE.contains(&errno)) =>
            {
                BlockErrorKind::Gone
            }
            _ => otherwise,
        };
        let mut error = Self::new(kind, context);
        error.0.source = Some(source);
        error
    }

    /// Adds the offset of the first byte that failed.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset = Some(offset);
        self
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> BlockErrorKind {
        self.0.kind
    }

    /// Returns the offset of the first byte that failed, if known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Returns the operation that failed.
    pub fn context(&self) -> &str {
        &self.0.context
    }

    /// Returns the operation and its place, without the meaning of the failure. It serves callers
    /// that state the meaning in their own words.
    pub fn doing(&self) -> String {
        match self.0.offset {
            Some(offset) => format!("{} at byte {offset}", self.0.context),
            None => self.0.context.to_string(),
        }
    }
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind.words(), self.doing())
    }
}

impl std::error::Error for BlockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use hint::Place;
    use rustix::io::Errno;

    #[test]
    fn a_full_disk_is_never_a_medium_error() {
        for (errno, kind) in [
            (Errno::NOSPC, BlockErrorKind::NoSpace),
            (Errno::DQUOT, BlockErrorKind::NoSpace),
            (Errno::ROFS, BlockErrorKind::ReadOnly),
            (Errno::NXIO, BlockErrorKind::Gone),
            (Errno::NODEV, BlockErrorKind::Gone),
            (Errno::IO, BlockErrorKind::Write),
        ] {
            assert_eq!(
                BlockError::writing(errno.into(), "writing").kind(),
                kind,
                "{errno:?}"
            );
        }
        let error = BlockError::reading(Errno::IO.into(), "reading /x").at(512);
        assert_eq!(error.kind(), BlockErrorKind::Medium);
        assert_eq!(error.to_string(), "read failed: reading /x at byte 512");
        assert_eq!(size_of::<Result<(), BlockError>>(), 8);
    }

    #[test]
    fn of_a_block_request_by_what_failed_and_on_what() {
        let disk = Place::Device(Path::new("/dev/sdb"));
        let file = Place::DataFile(Path::new("/srv/a.img"));
        let remote = Place::RemoteDisk(Path::new("naa.6"));
        let bad_sector = || BlockError::reading(Errno::IO.into(), "reading");
        assert_eq!(
            disk.after(bad_sector().cause()),
            disk.next(&Errno::IO.into())
        );
        assert_eq!(
            file.after(bad_sector().cause()),
            file.next(&Errno::IO.into())
        );
        let of = |kind| BlockError::new(kind, "asking");
        for (kind, errno) in [
            (BlockErrorKind::Medium, Errno::IO),
            (BlockErrorKind::Write, Errno::IO),
            (BlockErrorKind::NoSpace, Errno::NOSPC),
            (BlockErrorKind::ReadOnly, Errno::ROFS),
            (BlockErrorKind::Reserved, Errno::BADE),
            (BlockErrorKind::Gone, Errno::NODEV),
            (BlockErrorKind::Invalid, Errno::PROTO),
        ] {
            for place in [disk, file, remote] {
                assert_eq!(
                    place.after(of(kind).cause()),
                    place.next(&errno.into()),
                    "{place:?}, {kind:?}"
                );
            }
        }
        assert_eq!(
            remote.after(of(BlockErrorKind::Away).cause()),
            remote.next(&Errno::NODEV.into())
        );
        for (place, text) in [
            (
                disk,
                "the device became smaller: `blockdev --getsize64 /dev/sdb` shows its size; restore the \
                 earlier size, or choose another device",
            ),
            (
                file,
                "the file was cut short: restore /srv/a.img, or restore its length with truncate if the lost \
                 data is not needed",
            ),
            (
                remote,
                "the array made naa.6 smaller: restore its size there, then try again",
            ),
        ] {
            assert_eq!(place.after(of(BlockErrorKind::OutOfRange).cause()), text);
        }
    }
}
