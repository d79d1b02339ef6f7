//! Bytes of an iSNS server: bytes to messages to responses. There is never a panic, and no more
//! memory is taken than was received. The messages do not depend on the places at which the bytes
//! were cut.
//!
//! Input: one byte that chooses how the stream is cut, then the stream.

use iscsi::isns::{Assembler, Attributes, Message, Response};

use crate::input::Bytes;

/// Runs one input of the fuzzer.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let [cut] = bytes.array();
    let stream = bytes.take(data.len());
    let whole = messages(stream, stream.len().max(1));
    let pieces = messages(stream, usize::from(cut).max(1));
    assert_eq!(whole, pieces, "another meaning in pieces");
    for message in &whole {
        assert!(message.payload.len() <= stream.len(), "more than was sent");
        let _ = Response::decode(message);
        let told: usize = Attributes::new(&message.payload)
            .flatten()
            .map(|attribute| attribute.value.len() + 8)
            .sum();
        assert!(told <= message.payload.len(), "attributes overlap");
        let mut again = Assembler::default();
        again.push(&message.encode());
        assert_eq!(again.next_message().as_ref(), Ok(&Some(message.clone())));
    }
}

/// Returns the messages of a stream until its end or the first error, received in pieces of this
/// length.
fn messages(stream: &[u8], piece: usize) -> Vec<Message> {
    let mut assembler = Assembler::default();
    let mut messages = Vec::new();
    for bytes in stream.chunks(piece) {
        assembler.push(bytes);
        loop {
            match assembler.next_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(_) => return messages,
            }
        }
    }
    messages
}
