//! Client that waits for each answer, over a unix socket: structured replies, `base:allocation`.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nbd::wire::*;

/// Connection in the transmission phase.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    pub(crate) size: u64,
    pub(crate) flags: u16,
}

/// Reply: its cookie, its error (0 for none), its payload.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) cookie: u64,
    pub(crate) error: u32,
    pub(crate) payload: Vec<u8>,
}

impl Client {
    /// Connects and shakes hands.
    pub(crate) fn connect(socket: &Path) -> Self {
        let mut stream = UnixStream::connect(socket).unwrap();
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).unwrap();
        stream.set_write_timeout(limit).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\x00\x03");
        stream.write_all(&[0, 0, 0, 3]).unwrap();
        let mut client = Self {
            stream,
            size: 0,
            flags: 0,
        };
        client.option(option_code::STRUCTURED_REPLY, b"");
        let context = b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation";
        client.option(option_code::SET_META_CONTEXT, context);
        for data in client.option(option_code::GO, &[0; 6]) {
            if data[..2] == info::EXPORT.to_be_bytes() {
                client.size = number(&data[2..10]);
                client.flags = number(&data[10..12]) as u16;
            }
        }
        client
    }

    /// Sends an option that succeeds, and returns the data of its replies before the ACK.
    fn option(&mut self, code: u32, data: &[u8]) -> Vec<Vec<u8>> {
        let head = [
            &OPTION_MAGIC.to_be_bytes()[..],
            &code.to_be_bytes(),
            &(data.len() as u32).to_be_bytes(),
            data,
        ];
        self.stream.write_all(&head.concat()).unwrap();
        let mut replies = Vec::new();
        loop {
            let mut head = [0; 20];
            self.stream.read_exact(&mut head).unwrap();
            let mut data = vec![0; number(&head[16..]) as usize];
            self.stream.read_exact(&mut data).unwrap();
            match number(&head[12..16]) as u32 {
                option_reply::ACK => return replies,
                kind if kind >> 31 == 0 => replies.push(data),
                kind => panic!("option {code} is refused with {kind:#x}"),
            }
        }
    }

    /// Sends a request, followed by the payload of a write.
    pub(crate) fn send(&mut self, flags: u16, kind: u16, cookie: u64, at: u64, len: u32) {
        let head = request(flags, kind, cookie, at, len);
        self.stream.write_all(&head).unwrap();
    }

    /// Receives the next reply.
    pub(crate) fn receive(&mut self) -> Reply {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head).unwrap();
        let cookie = number(&head[8..]);
        if number(&head[..4]) == u64::from(SIMPLE_REPLY_MAGIC) {
            return Reply {
                cookie,
                error: number(&head[4..8]) as u32,
                payload: Vec::new(),
            };
        }
        assert_eq!(number(&head[..4]), u64::from(STRUCTURED_REPLY_MAGIC));
        let mut len = [0; 4];
        self.stream.read_exact(&mut len).unwrap();
        let mut payload = vec![0; number(&len) as usize];
        self.stream.read_exact(&mut payload).unwrap();
        let kind = number(&head[6..8]) as u16;
        let error = match kind >> 15 {
            0 => 0,
            _ => number(&payload[..4]) as u32,
        };
        if kind == chunk::OFFSET_DATA {
            payload.drain(..8);
        }
        Reply {
            cookie,
            error,
            payload,
        }
    }

    /// Reports whether the server has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]), Ok(0) | Err(_))
    }

    pub(crate) fn write(&mut self, at: u64, data: &[u8], flags: u16) -> u32 {
        self.send(flags, command::WRITE, 1, at, data.len() as u32);
        self.stream.write_all(data).unwrap();
        self.receive().error
    }

    pub(crate) fn read(&mut self, at: u64, len: u32) -> Result<Vec<u8>, u32> {
        self.send(0, command::READ, 2, at, len);
        match self.receive() {
            Reply {
                error: 0, payload, ..
            } => Ok(payload),
            Reply { error, .. } => Err(error),
        }
    }

    /// Sends a request without payload, and returns its error.
    pub(crate) fn ask(&mut self, flags: u16, kind: u16, at: u64, len: u32) -> u32 {
        self.send(flags, kind, 3, at, len);
        self.receive().error
    }
}

/// Returns the head of a request.
pub(crate) fn request(flags: u16, kind: u16, cookie: u64, at: u64, len: u32) -> Vec<u8> {
    let head = [
        &REQUEST_MAGIC.to_be_bytes()[..],
        &flags.to_be_bytes(),
        &kind.to_be_bytes(),
        &cookie.to_be_bytes(),
        &at.to_be_bytes(),
        &len.to_be_bytes(),
    ];
    head.concat()
}

/// Reads a big-endian number.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}
