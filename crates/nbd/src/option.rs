//! Data of options as clients send it, and replies to options as they are written.

use crate::wire::{MAX_STRING, OPTION_REPLY_MAGIC};

/// Cursor over option data. Its methods return `None` if the data ends too early.
#[derive(Clone, Copy, Debug)]
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// Reads a string with its length before it.
    fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()? as usize;
        (len <= MAX_STRING).then(|| self.take(len)).flatten()
    }
}

/// Data of INFO and GO.
#[derive(Debug)]
pub(crate) struct InfoRequest<'a> {
    pub(crate) name: &'a [u8],
    wanted: &'a [u8],
}

impl<'a> InfoRequest<'a> {
    /// Reads the data, or returns `None` if it is malformed.
    pub(crate) fn parse(data: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(data);
        let name = fields.string()?;
        let count = usize::from(fields.u16()?);
        let wanted = fields.take(count * 2)?;
        fields.0.is_empty().then_some(Self { name, wanted })
    }

    /// Reports whether the client asked for this piece of information.
    pub(crate) fn wants(&self, info: u16) -> bool {
        self.wanted
            .chunks_exact(2)
            .any(|item| item == info.to_be_bytes())
    }
}

/// Data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Debug)]
pub(crate) struct ContextRequest<'a> {
    pub(crate) export: &'a [u8],
    queries: Fields<'a>,
    pub(crate) count: u32,
}

impl<'a> ContextRequest<'a> {
    /// Reads the data, or returns `None` if it is malformed.
    pub(crate) fn parse(data: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(data);
        let export = fields.string()?;
        let count = fields.u32()?;
        let request = Self {
            export,
            queries: fields,
            count,
        };
        for _ in 0..count {
            fields.string()?;
        }
        fields.0.is_empty().then_some(request)
    }

    /// Reports whether one of the queries is this one.
    pub(crate) fn asks_for(&self, query: &str) -> bool {
        let mut fields = self.queries;
        std::iter::from_fn(|| fields.string()).any(|asked| asked == query.as_bytes())
    }
}

/// Writer of replies to one option.
#[derive(Debug)]
pub(crate) struct OptionReplies<'a> {
    pub(crate) option: u32,
    pub(crate) out: &'a mut Vec<u8>,
}

impl OptionReplies<'_> {
    /// Writes a reply whose data is these pieces.
    pub(crate) fn put(&mut self, kind: u32, data: &[&[u8]]) {
        let len: usize = data.iter().map(|piece| piece.len()).sum();
        self.out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
        self.out.extend(self.option.to_be_bytes());
        self.out.extend(kind.to_be_bytes());
        // Names and descriptions come from this server or are at most MAX_STRING long.
        self.out.extend((len as u32).to_be_bytes());
        data.iter().for_each(|piece| self.out.extend(*piece));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_lie_are_refused() {
        let good = [&[0, 0, 0, 1, b'x', 0, 2][..], &[0, 3, 0, 1]].concat();
        let parsed = InfoRequest::parse(&good).expect("well formed");
        assert_eq!(parsed.name, b"x");
        assert!(parsed.wants(3) && parsed.wants(1) && !parsed.wants(0x0300));
        for end in 0..good.len() {
            assert!(InfoRequest::parse(&good[..end]).is_none(), "{end}");
        }
        assert!(InfoRequest::parse(&[&good[..], &[0]].concat()).is_none());
        assert!(InfoRequest::parse(&[0xff; 6]).is_none());

        let good = [&[0u8; 4][..], &[0, 0, 0, 2, 0, 0, 0, 1, b'a', 0, 0, 0, 0]].concat();
        let parsed = ContextRequest::parse(&good).expect("well formed");
        assert!(parsed.asks_for("a") && parsed.asks_for("") && !parsed.asks_for("b"));
        for end in 0..good.len() {
            assert!(ContextRequest::parse(&good[..end]).is_none(), "{end}");
        }
        assert!(ContextRequest::parse(&[&good[..], &[0]].concat()).is_none());
        let many = [&[0u8; 4][..], &[0xff; 4]].concat();
        assert!(ContextRequest::parse(&many).is_none());
    }
}
