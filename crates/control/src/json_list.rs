//! JSON lists of any length, made while they are sent. Memory holds no more of a list than its
//! receiver is about to take.

use std::io;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use hyper::body::Bytes;
use serde::Serialize;
use tokio::sync::mpsc::{Sender, channel};

use super::streaming::{PIECES, Pieces};

/// Bytes of a piece that is sent.
const PIECE: usize = 64 << 10;

/// Returns an answer with the given items as a JSON list. If an item cannot be written, the
/// connection ends before the list.
pub(super) fn json_list<T: Serialize>(items: impl Iterator<Item = T> + Send + 'static) -> Response {
    let (outbox, inbox) = channel(PIECES);
    tokio::task::spawn_blocking(move || {
        if let Err(error) = write(items, &outbox) {
            // If the receiver is gone, there is nobody to tell.
            let _ = outbox.blocking_send(Err(error));
        }
    });
    let kind = [(CONTENT_TYPE, "application/json")];
    (kind, Body::new(Pieces(inbox))).into_response()
}

fn write<T: Serialize>(
    items: impl Iterator<Item = T>,
    outbox: &Sender<io::Result<Bytes>>,
) -> io::Result<()> {
    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    let mut piece = vec![b'['];
    for (number, item) in items.enumerate() {
        if number > 0 {
            piece.push(b',');
        }
        serde_json::to_writer(&mut piece, &item)?;
        if piece.len() >= PIECE {
            let full = std::mem::replace(&mut piece, Vec::with_capacity(PIECE + PIECE / 8));
            outbox.blocking_send(Ok(full.into())).map_err(gone)?;
        }
    }
    piece.push(b']');
    outbox.blocking_send(Ok(piece.into())).map_err(gone)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Checks the fault of the issue: all of a long list was in memory, twice.
    #[test]
    fn no_more_of_a_list_is_made_than_is_about_to_be_taken() {
        const COUNT: usize = 20_000;
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        let items = (0..COUNT).map(move |number| {
            counted.fetch_add(1, Ordering::SeqCst);
            format!("{number:0100}")
        });
        let (outbox, mut inbox) = channel(1);
        let writer = std::thread::spawn(move || write(items, &outbox).expect("it is taken"));
        let mut taken = Vec::new();
        while let Some(piece) = inbox.blocking_recv() {
            taken.extend_from_slice(&piece.expect("a piece"));
            // One piece waits to be taken, one waits to be sent, and one is being made.
            let ahead = made.load(Ordering::SeqCst) * 103;
            assert!(ahead <= taken.len() + 4 * PIECE, "{ahead} {}", taken.len());
        }
        writer.join().expect("it ends");
        let read: Vec<String> = serde_json::from_slice(&taken).expect("a list");
        assert_eq!(read.len(), COUNT);
        assert!(read.is_sorted());
    }

    #[test]
    fn an_empty_list_is_a_list() {
        let (outbox, mut inbox) = channel(1);
        write(std::iter::empty::<u8>(), &outbox).expect("it is taken");
        assert_eq!(
            &inbox.blocking_recv().expect("a piece").expect("bytes")[..],
            b"[]"
        );
    }
}
