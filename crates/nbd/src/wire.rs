//! Numbers of the protocol, by the names that `doc/proto.md` gives them ("Values").

/// First bytes of a server: `NBDMAGIC` (`INIT_PASSWD`).
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: mark of newstyle negotiation, and the first bytes of every option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// First bytes of every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// First bytes of a compact request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// First bytes of an extended request.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// First bytes of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// First bytes of a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// First bytes of a chunk of an extended reply.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Longest string in bytes ("Conventions").
pub const MAX_STRING: usize = 4096;
/// Payload that every server accepts, in bytes ("Size constraints").
pub const DEFAULT_MAX_PAYLOAD: u32 = 1 << 25;

/// Handshake flags, and the client's answer to them.
pub mod handshake_flag {
    /// Options other than EXPORT_NAME are answered.
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// The 124 zeros after EXPORT_NAME may be left out.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Transmission flags: operations that an export supports.
pub mod transmission_flag {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is known.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The command flag FUA is known.
    pub const SEND_FUA: u16 = 1 << 3;
    /// The export is on a rotating medium.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// TRIM is known.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is known.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The command flag DF is known.
    pub const SEND_DF: u16 = 1 << 7;
    /// FLUSH and FUA cover all connections.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is known.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// The command flag FAST_ZERO is known.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
    /// BLOCK_STATUS may name the contexts that the client wants.
    pub const BLOCK_STATUS_PAYLOAD: u16 = 1 << 12;
}

/// Options of the handshake.
pub mod option_code {
    /// Choose an export in the old way, in which a server can refuse only by closing.
    pub const EXPORT_NAME: u32 = 1;
    /// End the handshake.
    pub const ABORT: u32 = 2;
    /// Name all exports.
    pub const LIST: u32 = 3;
    /// Begin TLS.
    pub const STARTTLS: u32 = 5;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and begin transmission.
    pub const GO: u32 = 7;
    /// Agree on structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List the metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Use these metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Agree on extended headers.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Kinds of replies to options.
pub mod option_reply {
    /// The option is done.
    pub const ACK: u32 = 1;
    /// An export.
    pub const SERVER: u32 = 2;
    /// An aspect of an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The option is not known.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// The option is known and not allowed here.
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    /// The option is malformed or out of place.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// TLS must begin first.
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    /// No export has this name.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// The server is about to end.
    pub const ERR_SHUTDOWN: u32 = (1 << 31) + 7;
    /// The data of the option is too long.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
    /// Extended headers were agreed and stay.
    pub const ERR_EXT_HEADER_REQD: u32 = (1 << 31) + 10;
}

/// Kinds of information in answers to INFO and GO.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// Canonical name.
    pub const NAME: u16 = 1;
    /// A description for people.
    pub const DESCRIPTION: u16 = 2;
    /// Size constraints.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Commands of the transmission phase.
pub mod command {
    /// Read data.
    pub const READ: u16 = 0;
    /// Write data.
    pub const WRITE: u16 = 1;
    /// End the connection.
    pub const DISC: u16 = 2;
    /// Make all writes that were answered durable.
    pub const FLUSH: u16 = 3;
    /// Forget the data and free its space.
    pub const TRIM: u16 = 4;
    /// Bring the data near.
    pub const CACHE: u16 = 5;
    /// Write zeros.
    pub const WRITE_ZEROES: u16 = 6;
    /// Report the parts that hold data.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Command flags.
pub mod command_flag {
    /// Answer only once the result is durable.
    pub const FUA: u16 = 1 << 0;
    /// Write zeros that keep their space.
    pub const NO_HOLE: u16 = 1 << 1;
    /// Answer a read with one content chunk.
    pub const DF: u16 = 1 << 2;
    /// Report one extent only.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Write zeros only if that is quicker than writing data.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// The length is that of a payload.
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Flags and types of structured and extended replies.
pub mod chunk {
    /// Last chunk of a reply.
    pub const FLAG_DONE: u16 = 1 << 0;
    /// Chunk without content.
    pub const NONE: u16 = 0;
    /// Data at an offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Zeros at an offset.
    pub const OFFSET_HOLE: u16 = 2;
    /// Descriptors of extents.
    pub const BLOCK_STATUS: u16 = 5;
    /// Wide descriptors of extents.
    pub const BLOCK_STATUS_EXT: u16 = 6;
    /// Error of the request.
    pub const ERROR: u16 = (1 << 15) + 1;
    /// Error of the request at an offset.
    pub const ERROR_OFFSET: u16 = (1 << 15) + 2;
}

/// Metadata context that names the parts that hold data.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Number under which clients know that context once they have chosen it.
pub const BASE_ALLOCATION_ID: u32 = 1;
/// `base:allocation` state: the part takes no space.
pub const STATE_HOLE: u32 = 1 << 0;
/// `base:allocation` state: the part reads as zeros.
pub const STATE_ZERO: u32 = 1 << 1;

/// Reasons why a request failed ("Error values").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ErrorCode {
    /// The export is read-only.
    Perm = 1,
    /// The device failed.
    Io = 5,
    /// No memory is left.
    NoMem = 12,
    /// The request is wrong.
    Inval = 22,
    /// The device is full, or a write goes beyond its end.
    NoSpc = 28,
    /// The request asks for too much at a time.
    Overflow = 75,
    /// Zeroing would be no quicker than writing.
    NotSup = 95,
    /// The server is about to end.
    Shutdown = 108,
}
