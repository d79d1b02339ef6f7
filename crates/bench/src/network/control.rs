//! The control connection of a test: states and JSON, each within a time limit.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{NetworkError, is_timeout};
use super::message::{self, Cookie, EndState};

/// Longest time for one answer.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Duration of a look for a state that may have arrived.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Control {
    stream: TcpStream,
}

impl Control {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(ANSWER_LIMIT))?;
        Ok(Self { stream })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn local_address(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// Fills `buffer` within the time limit, however slowly the bytes come.
    pub(super) fn read(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<()> {
        let end = Instant::now() + limit;
        let mut filled = 0;
        while filled < buffer.len() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut buffer[filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), NetworkError> {
        self.stream
            .write_all(bytes)
            .map_err(NetworkError::socket("send to the other end"))
    }

    pub(super) fn send_cookie(&mut self, cookie: &Cookie) -> Result<(), NetworkError> {
        self.send(&cookie.0)
    }

    pub(super) fn send_state(&mut self, state: EndState) -> Result<(), NetworkError> {
        self.send(&[state.byte()])
    }

    /// Returns the next state, within `limit`.
    pub(super) fn state(&mut self, limit: Duration) -> Result<EndState, NetworkError> {
        let mut byte = [0];
        self.read(&mut byte, limit)
            .map_err(NetworkError::socket("receive from the other end"))?;
        self.understand(byte[0])
    }

    /// Returns a state if one has arrived already.
    pub(super) fn state_if_any(&mut self) -> Result<Option<EndState>, NetworkError> {
        let mut byte = [0];
        match self.read(&mut byte, LOOK) {
            Ok(()) => self.understand(byte[0]).map(Some),
            Err(error) if is_timeout(&error) => Ok(None),
            Err(error) => Err(NetworkError::socket("receive from the other end")(error)),
        }
    }

    fn understand(&mut self, byte: u8) -> Result<EndState, NetworkError> {
        match EndState::read(byte) {
            Some(EndState::AccessDenied) => Err(NetworkError::Busy),
            Some(EndState::ServerTerminate | EndState::ClientTerminate) => Err(NetworkError::Ended),
            Some(EndState::ServerError) => {
                let mut numbers = [0; 8];
                self.read(&mut numbers, ANSWER_LIMIT)
                    .map_err(NetworkError::socket("receive the reason for the refusal"))?;
                let [a, b, c, d, ..] = numbers;
                Err(NetworkError::Refused(i32::from_be_bytes([a, b, c, d])))
            }
            Some(state) => Ok(state),
            None => Err(NetworkError::Protocol(format!("it sent state {byte}"))),
        }
    }

    /// Waits for one state, and accepts no other.
    pub(super) fn expect(&mut self, wanted: EndState) -> Result<(), NetworkError> {
        match self.state(ANSWER_LIMIT)? {
            state if state == wanted => Ok(()),
            state => Err(NetworkError::Protocol(format!(
                "it sent {state:?} instead of {wanted:?}"
            ))),
        }
    }

    pub(super) fn send_json(&mut self, value: &impl Serialize) -> Result<(), NetworkError> {
        let framed = message::frame(value).map_err(NetworkError::socket("write JSON"))?;
        self.send(&framed)
    }

    pub(super) fn json<T: DeserializeOwned>(&mut self) -> Result<T, NetworkError> {
        let mut header = [0; 4];
        self.read(&mut header, ANSWER_LIMIT)
            .map_err(NetworkError::socket("receive from the other end"))?;
        let len = message::framed_len(header)
            .ok_or_else(|| NetworkError::Protocol("its JSON is too long".to_owned()))?;
        let mut text = vec![0; len];
        self.read(&mut text, ANSWER_LIMIT)
            .map_err(NetworkError::socket("receive from the other end"))?;
        // Some versions of iperf3 count the zero byte at the end of their text.
        let text = text.strip_suffix(&[0]).unwrap_or(&text);
        serde_json::from_slice(text).map_err(|error| {
            NetworkError::Protocol(format!("its JSON cannot be understood: {error}"))
        })
    }
}
