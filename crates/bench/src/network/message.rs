//! Messages of iperf3's control connection: states of one byte, a cookie, and JSON after its
//! length.
//!
//! Both ends count as hostile: each message has a limit before it is read, and is checked before it
//! is used.

use serde::{Deserialize, Deserializer, Serialize};

/// Port of iperf3.
pub const DEFAULT_PORT: u16 = 5201;

/// Bytes of a cookie, including the zero byte at its end. Each connection of a test begins with a
/// cookie.
pub const COOKIE_LEN: usize = 37;

/// Prefix of the cookie of a connection that wants its bytes back. An iperf3 server takes the
/// connection for a test; Sandstone's server answers [`EndState::Echo`].
pub const ECHO_PREFIX: &[u8] = b"sandstone-echo-";

/// Longest JSON that is read. 128 streams take 30 KiB; a server that sends its whole output takes
/// more.
pub const MAX_JSON: usize = 1 << 20;

/// Most data connections in one direction, as in iperf3.
pub const MAX_PARALLEL: u32 = 128;

/// Largest block that a sender writes at once, as in iperf3.
pub const MAX_BLOCK: u32 = 1 << 20;

/// Default of the block that a sender writes at once, as in iperf3.
pub const DEFAULT_BLOCK: u32 = 128 << 10;

/// Longest test in which Sandstone's server takes part, in seconds.
pub const MAX_TIME_S: u32 = 24 * 3600;

/// State that one end sends to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum EndState {
    /// The server has all streams.
    TestStart = 1,
    /// Data may flow.
    TestRunning = 2,
    /// The client has measured enough.
    TestEnd = 4,
    /// The client shall send its parameters.
    ParamExchange = 9,
    /// The client shall open its data connections.
    CreateStreams = 10,
    /// The server ends the test.
    ServerTerminate = 11,
    /// The client ends the test.
    ClientTerminate = 12,
    /// The ends exchange their counts, the client first.
    ExchangeResults = 13,
    /// The counts are at either end.
    DisplayResults = 14,
    /// The client is finished.
    IperfDone = 16,
    /// The server sends every byte back. This state is Sandstone's own, and unknown to iperf3.
    Echo = 100,
    /// The server is busy with another client.
    AccessDenied = -1,
    /// The server refuses; two numbers follow.
    ServerError = -2,
}

impl EndState {
    /// Decodes a byte; `None` for a byte that nobody should send.
    pub fn read(byte: u8) -> Option<Self> {
        const ALL: [EndState; 13] = [
            EndState::TestStart,
            EndState::TestRunning,
            EndState::TestEnd,
            EndState::ParamExchange,
            EndState::CreateStreams,
            EndState::ServerTerminate,
            EndState::ClientTerminate,
            EndState::ExchangeResults,
            EndState::DisplayResults,
            EndState::IperfDone,
            EndState::Echo,
            EndState::AccessDenied,
            EndState::ServerError,
        ];
        ALL.into_iter().find(|state| state.byte() == byte)
    }

    /// Encodes the state as a byte.
    pub fn byte(self) -> u8 {
        (self as i8).cast_unsigned()
    }
}

/// Cookie that tells the connections of one test from those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie(pub [u8; COOKIE_LEN]);

impl Cookie {
    /// Creates a cookie that begins with `prefix` and ends in random bytes.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(prefix: &[u8]) -> std::io::Result<Self> {
        const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let mut random = [0; COOKIE_LEN];
        getrandom::fill(&mut random).map_err(std::io::Error::other)?;
        let mut cookie = random.map(|byte| ALPHABET[usize::from(byte % 32)]);
        let prefix = &prefix[..prefix.len().min(COOKIE_LEN - 1)];
        cookie[..prefix.len()].copy_from_slice(prefix);
        cookie[COOKIE_LEN - 1] = 0;
        Ok(Self(cookie))
    }

    /// Reports whether the connection wants its bytes back.
    pub fn wants_echo(&self) -> bool {
        self.0.starts_with(ECHO_PREFIX)
    }
}

/// Parameters of a client's test. Keys and defaults are iperf3's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestParameters {
    /// Whether the test runs over TCP.
    pub tcp: bool,
    /// Whether the test runs over UDP, which Sandstone's server refuses.
    #[serde(skip_serializing_if = "is_false")]
    pub udp: bool,
    /// Whether the test runs over SCTP, which Sandstone's server refuses.
    #[serde(skip_serializing_if = "is_false")]
    pub sctp: bool,
    /// Seconds at the beginning that do not count.
    pub omit: u32,
    /// Duration in seconds; 0 if an amount is given.
    pub time: u32,
    /// Bytes after which the client ends the test; 0 for none.
    #[serde(deserialize_with = "whole")]
    pub num: u64,
    /// Blocks after which the client ends the test; 0 for none.
    #[serde(deserialize_with = "whole")]
    pub blockcount: u64,
    /// Number of connections for each direction.
    pub parallel: u32,
    /// Whether the server sends.
    #[serde(skip_serializing_if = "is_false")]
    pub reverse: bool,
    /// Whether both ends send.
    #[serde(skip_serializing_if = "is_false")]
    pub bidirectional: bool,
    /// Size of socket buffers in bytes; 0 leaves it to the kernel.
    #[serde(skip_serializing_if = "is_zero")]
    pub window: u32,
    /// Maximum segment size; 0 leaves it to the kernel.
    #[serde(rename = "MSS", skip_serializing_if = "is_zero")]
    pub mss: u32,
    /// Whether Nagle's delay is off.
    #[serde(skip_serializing_if = "is_false")]
    pub nodelay: bool,
    /// Bytes of a write.
    pub len: u32,
    /// Rate limit of a sender in bits per second and stream; 0 for no limit.
    #[serde(deserialize_with = "whole")]
    pub bandwidth: u64,
    /// Microseconds between two checks of the rate; the value is kept but not used.
    pub pacing_timer: u32,
    /// Version of the client.
    pub client_version: String,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// Reads a whole number that iperf3 may have written as `1e+16`.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if !(0.0..9.2e18).contains(&number) {
        return Err(serde::de::Error::custom("a count is out of range"));
    }
    Ok(number as u64)
}

/// Reads a number that stands for unknown as -1, which some versions of iperf3 write as an unsigned
/// number.
fn signed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let number = f64::deserialize(deserializer)?;
    Ok(if (0.0..9.2e18).contains(&number) {
        number as i64
    } else {
        -1
    })
}

/// Reason why a server refuses a test: iperf3's error number, and words for the server's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Error number, which an iperf3 client turns into its own words.
    pub number: i32,
    /// Reason in words.
    pub reason: &'static str,
}

impl TestParameters {
    /// Checks that Sandstone's server takes part in this test.
    ///
    /// # Errors
    /// The refusal names what the server does not support.
    pub fn check(&self) -> Result<(), Refusal> {
        let refuse = |number, reason| Err(Refusal { number, reason });
        if self.udp || self.sctp || !self.tcp {
            return refuse(13, "only TCP is measured");
        }
        if !(1..=MAX_PARALLEL).contains(&self.parallel) {
            return refuse(6, "1 to 128 streams are possible");
        }
        if !(1..=MAX_BLOCK).contains(&self.len) {
            return refuse(7, "blocks have up to 1 MiB");
        }
        if self.window > 512 << 20 {
            return refuse(8, "the window is too large");
        }
        if self.time.saturating_add(self.omit) > MAX_TIME_S {
            return refuse(5, "the test is too long");
        }
        if self.mss > 65_535 {
            return refuse(10, "the segment size is too large");
        }
        Ok(())
    }
}

/// Counts of one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestResults {
    /// Processor time in percent of one processor.
    pub cpu_util_total: f64,
    /// Part of the processor time in the program.
    pub cpu_util_user: f64,
    /// Part of the processor time in the kernel.
    pub cpu_util_system: f64,
    /// Whether this end sent and knows its retransmits; -1 if it did not send.
    #[serde(deserialize_with = "signed")]
    pub sender_has_retransmits: i64,
    /// Congestion control of this end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_used: Option<String>,
    /// Counts of each stream.
    pub streams: Vec<StreamResults>,
}

/// Counts of one end for one stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamResults {
    /// Number of the stream; see [`stream_id`].
    pub id: u32,
    /// Bytes sent or received.
    #[serde(deserialize_with = "whole")]
    pub bytes: u64,
    /// Segments retransmitted; -1 if not known.
    #[serde(deserialize_with = "signed")]
    pub retransmits: i64,
    /// Jitter of UDP; unused.
    pub jitter: f64,
    /// Errors of UDP; unused.
    #[serde(deserialize_with = "signed")]
    pub errors: i64,
    /// Omitted errors of UDP; unused.
    #[serde(deserialize_with = "signed")]
    pub omitted_errors: i64,
    /// Packets of UDP; unused.
    #[serde(deserialize_with = "signed")]
    pub packets: i64,
    /// Omitted packets of UDP; unused.
    #[serde(deserialize_with = "signed")]
    pub omitted_packets: i64,
    /// Start in seconds since the test began.
    pub start_time: f64,
    /// End in seconds since the test began.
    pub end_time: f64,
}

/// Returns iperf3's number of the stream that was opened as the `index`-th, counted from 0: 1, 3,
/// 4, 5 …
pub fn stream_id(index: usize) -> u32 {
    match u32::try_from(index) {
        Ok(0) => 1,
        Ok(index) => index.saturating_add(2),
        Err(_) => u32::MAX,
    }
}

/// Encodes a value as JSON in the form for the wire.
///
/// # Errors
/// The value cannot be written as JSON, or is longer than [`MAX_JSON`].
pub fn frame(value: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let text = serde_json::to_vec(value)?;
    if text.len() > MAX_JSON {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    let mut framed = (text.len() as u32).to_be_bytes().to_vec();
    framed.extend_from_slice(&text);
    Ok(framed)
}

/// Returns the length of the JSON that follows; `None` if it is too long or empty.
pub fn framed_len(header: [u8; 4]) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(header))
        .ok()
        .filter(|len| (1..=MAX_JSON).contains(len))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_iperf3_writes_is_read() {
        let text = r#"{"tcp":true,"omit":0,"time":3,"num":0,"blockcount":0,"parallel":2,"reverse":true,
            "len":131072,"pacing_timer":1000,"client_version":"3.12"}"#;
        let parameters: TestParameters = serde_json::from_str(text).expect("well-formed");
        assert!(parameters.tcp && parameters.reverse && parameters.check().is_ok());
        assert_eq!((parameters.time, parameters.parallel), (3, 2));
        let text = r#"{"cpu_util_total":5.5,"cpu_util_user":0.3,"cpu_util_system":5.2,"sender_has_retransmits":1,
            "congestion_used":"cubic","streams":[{"id":1,"bytes":1.25e+16,"retransmits":7,"jitter":0,"errors":0,
            "omitted_errors":0,"packets":0,"omitted_packets":0,"start_time":0,"end_time":3.000162}]}"#;
        let results: TestResults = serde_json::from_str(text).expect("well-formed");
        assert_eq!(results.streams[0].bytes, 12_500_000_000_000_000);
        let text = r#"{"sender_has_retransmits":18446744073709551615,"streams":[{"retransmits":18446744073709551615}]}"#;
        let results: TestResults = serde_json::from_str(text).expect("well-formed");
        assert_eq!(
            (
                results.sender_has_retransmits,
                results.streams[0].retransmits
            ),
            (-1, -1)
        );
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let good = TestParameters {
            tcp: true,
            time: 10,
            parallel: 1,
            len: DEFAULT_BLOCK,
            ..TestParameters::default()
        };
        assert_eq!(good.check(), Ok(()));
        let wrong: [fn(&mut TestParameters); 7] = [
            |p| p.udp = true,
            |p| p.parallel = 0,
            |p| p.parallel = 129,
            |p| p.len = 0,
            |p| p.len = MAX_BLOCK + 1,
            |p| p.time = u32::MAX,
            |p| p.mss = 70_000,
        ];
        for (index, spoil) in wrong.into_iter().enumerate() {
            let mut parameters = good.clone();
            spoil(&mut parameters);
            assert!(parameters.check().is_err(), "{index}");
        }
        for text in [
            r#"{"num":-1}"#,
            r#"{"parallel":-1}"#,
            r#"{"num":1e300}"#,
            "42",
        ] {
            assert!(
                serde_json::from_str::<TestParameters>(text).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn streams_are_numbered_as_iperf3_does() {
        assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(header) = bytes.first_chunk::<4>() {
                prop_assert!(framed_len(*header).is_none_or(|len| len <= MAX_JSON));
            }
            for byte in &bytes {
                prop_assert!(EndState::read(*byte).is_none_or(|state| state.byte() == *byte));
            }
            // The parameters may be accepted or not, but nothing unchecked may come of them.
            if let Ok(parameters) = serde_json::from_slice::<TestParameters>(&bytes) {
                let _ = parameters.check();
            }
            let _ = serde_json::from_slice::<TestResults>(&bytes);
        }

        #[test]
        fn results_survive_the_wire(bytes in 0u64..1 << 53, retransmits in -1i64..1 << 40, count in 0usize..20) {
            let stream = |index| StreamResults { id: stream_id(index), bytes, retransmits, ..StreamResults::default() };
            let results = TestResults { streams: (0..count).map(stream).collect(), ..TestResults::default() };
            let framed = frame(&results).expect("short enough");
            let len = framed_len(*framed.first_chunk().expect("a header")).expect("bounded");
            prop_assert_eq!(len, framed.len() - 4);
            prop_assert_eq!(serde_json::from_slice::<TestResults>(&framed[4..]).expect("ours"), results);
        }
    }
}
