//! A JSON list of any length, made while it is sent: no more of it is in memory than its receiver is about to take.

use std::io;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use hyper::body::Bytes;
use serde::Serialize;
use tokio::sync::mpsc::{Sender, channel};

use super::streaming::{PIECES, Pieces};

/// Bytes of a piece that is handed over.
const PIECE: usize = 64 << 10;

/// The answer with these items. Where one cannot be written, the connection ends before the list does.
pub(super) fn json_list<T: Serialize>(items: impl Iterator<Item = T> + Send + 'static) -> Response {
    let (outbox, inbox) = channel(PIECES);
    tokio::task::spawn_blocking(move || {
        if let Err(error) = write(items, &outbox) {
            // Where nobody takes it any more, nobody is told either.
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
