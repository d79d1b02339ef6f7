//! Routes for streams, which carry snapshots to and from other pools. Bodies may have any length
//! and move in pieces, at the pace of the slower side.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body as Stream;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver as Inbox, Sender as Outbox, channel};

use super::{Answer, Plane, Shared, apart};
use crate::answer::{Body, Params, Problem};
use crate::asker::Asker;
use crate::author::Author;
use crate::endpoint::stream::{self as at, Abort, Octets};
use crate::streaming::{PIECES, Pieces};
use model::pool::dataset::name::split;
use model::pool::salvage::SalvageRequest;
use model::pool::stream::{PartView, ReceiveRequest, ReceiveView, SendRequest};
use model::{Error, ErrorKind};
use pools::stream::Begins;

/// Longest wait for the other side, before the code checks whether the daemon is ending.
const LOOK_UP: Duration = Duration::from_millis(200);
/// Time for which the rest of a refused stream is still read, so that the sender reads the refusal.
const PATIENCE: Duration = Duration::from_secs(10);

/// A part of a stream on its way into a pool.
enum Piece {
    Bytes(Bytes),
    /// The connection is broken. The text gives the reason.
    Broken(&'static str),
}

/// Sends snapshots. Errors on the way are reported in the stream itself.
#[utoipa::path(post, path = at::SEND.path, tag = at::SEND.tag, operation_id = at::SEND.id, request_body = SendRequest,
    responses((status = 200, content_type = "application/octet-stream", body = Octets), (status = "4XX", body = Problem)))]
pub(super) async fn send(
    State(plane): State<Shared>,
    Body(request): Body<SendRequest>,
) -> Result<Response, Problem> {
    let pools = Arc::clone(&plane.pools);
    let sender = apart(move || pools.sender(&request)).await?;
    let (outbox, inbox) = channel(PIECES);
    tokio::task::spawn_blocking(move || {
        let mut sink = |piece: Vec<u8>| hand_over(&plane, &outbox, Bytes::from(piece));
        if let Err(error) = sender.run(&mut sink) {
            tracing::warn!(%error, "the sending of a stream did not finish");
        }
    });
    let kind = [(CONTENT_TYPE, "application/octet-stream")];
    Ok((kind, Stream::new(Pieces(inbox))).into_response())
}

fn hand_over(
    plane: &Plane,
    outbox: &Outbox<std::io::Result<Bytes>>,
    piece: Bytes,
) -> Result<(), Error> {
    let gone = |message: &str| Error::new(ErrorKind::Unavailable, message, "repeat the command");
    let mut piece = Ok(piece);
    loop {
        piece = match outbox.try_send(piece) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => {
                return Err(gone("the receiver no longer reads the stream"));
            }
            Err(TrySendError::Full(piece)) => piece,
        };
        if plane.pools.is_ending() {
            return Err(gone("the daemon is stopping"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Copies the readable bytes of a volume, and reports the unreadable ranges. Each piece has a kind,
/// an offset and a length. Pieces of data carry their bytes, unless these go into a new volume.
#[utoipa::path(post, path = at::SALVAGE.path, tag = at::SALVAGE.tag, operation_id = at::SALVAGE.id, request_body = SalvageRequest,
    responses((status = 200, content_type = "application/octet-stream", body = Octets), (status = "4XX", body = Problem)))]
pub(super) async fn salvage(
    State(plane): State<Shared>,
    Body(request): Body<SalvageRequest>,
) -> Result<Response, Problem> {
    let pools = Arc::clone(&plane.pools);
    let salvage = apart(move || pools.salvage(&request)).await?;
    let (outbox, inbox) = channel(PIECES);
    tokio::task::spawn_blocking(move || {
        let mut sink = |piece: Vec<u8>| hand_over(&plane, &outbox, Bytes::from(piece));
        if let Err(error) = salvage.run(&mut sink) {
            tracing::warn!(%error, "the salvage of a volume did not finish");
        }
    });
    let kind = [(CONTENT_TYPE, "application/octet-stream")];
    Ok((kind, Stream::new(Pieces(inbox))).into_response())
}

/// Estimates the size of a stream.
#[utoipa::path(post, path = at::ESTIMATE.path, tag = at::ESTIMATE.tag, operation_id = at::ESTIMATE.id, request_body = SendRequest,
    responses((status = 200, body = Vec<PartView>), (status = "4XX", body = Problem)))]
pub(super) async fn estimate(
    State(plane): State<Shared>,
    Body(request): Body<SendRequest>,
) -> Answer<Vec<PartView>> {
    Author::asks_only();
    let parts = apart(move || plane.pools.sender(&request)?.estimate());
    parts.await.map(Json)
}

/// Receives snapshots. A snapshot is not visible before all of it has arrived. This is refused
/// while logical units serve the volume.
#[utoipa::path(post, path = at::RECEIVE.path, tag = at::RECEIVE.tag, operation_id = at::RECEIVE.id, params(ReceiveRequest),
    request_body(content = Octets, content_type = "application/octet-stream"),
    responses((status = 200, body = Vec<ReceiveView>), (status = "4XX", body = Problem)))]
pub(super) async fn receive(
    State(plane): State<Shared>,
    asker: Asker,
    Params(request): Params<ReceiveRequest>,
    mut stream: Stream,
) -> Answer<Vec<ReceiveView>> {
    let (outbox, inbox) = channel(PIECES);
    let pools = Arc::clone(&plane.pools);
    let work = tokio::spawn(apart(move || {
        let pool = (!request.dry_run).then(|| split(&request.name).0.to_owned());
        // The path names the object.
        let deed = asker.deed(&());
        let taken = take(&plane, request, inbox)?;
        if let Some(pool) = pool {
            plane.pools.note(&pool, &deed);
        }
        Ok(taken)
    }));
    loop {
        let frame = tokio::time::timeout(LOOK_UP, stream.frame()).await;
        let piece = match frame {
            Err(_) if pools.is_ending() => Piece::Broken("the daemon is stopping"),
            Err(_) if outbox.is_closed() => break,
            Err(_) => continue,
            Ok(None) => break,
            Ok(Some(Err(_))) => Piece::Broken("the connection was lost"),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(bytes) => Piece::Bytes(bytes),
                Err(_) => continue,
            },
        };
        let is_last = matches!(piece, Piece::Broken(_));
        if outbox.send(piece).await.is_err() || is_last {
            break;
        }
    }
    drop(outbox);
    let outcome = work.await.unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Unavailable,
            "the daemon is stopping",
            "send the stream again",
        )
        .into())
    });
    if outcome.is_err() {
        tokio::spawn(tokio::time::timeout(PATIENCE, async move {
            while let Some(Ok(_)) = stream.frame().await {}
        }));
    }
    outcome.map(Json)
}

fn take(
    plane: &Plane,
    request: ReceiveRequest,
    mut inbox: Inbox<Piece>,
) -> Result<Vec<ReceiveView>, Error> {
    let while_served = |begin: &mut Begins<'_>| {
        let _unchanged = plane.transactions.unchanged();
        begin(&plane.served())
    };
    let mut receiver = plane.pools.receiver(request, &while_served)?;
    let outcome = loop {
        match inbox.blocking_recv() {
            None => break receiver.finish(),
            Some(Piece::Bytes(bytes)) => {
                if let Err(error) = receiver.feed(&bytes) {
                    break Err(error);
                }
            }
            Some(Piece::Broken(why)) => {
                let message = format!("the stream was interrupted: {why}");
                let error = Error::new(ErrorKind::Unavailable, message, "send the stream again");
                break Err(error);
            }
        }
    };
    outcome.map_err(|error| receiver.give_up(error))
}

/// Gives up the data of a partial receive.
#[utoipa::path(post, path = at::ABORT.path, tag = at::ABORT.tag, operation_id = at::ABORT.id, request_body = Abort,
    responses((status = 204), (status = "4XX", body = Problem)))]
pub(super) async fn abort(
    State(plane): State<Shared>,
    asker: Asker,
    Body(request): Body<Abort>,
) -> Result<StatusCode, Problem> {
    apart(move || {
        plane.pools.abort_receive(&request.name)?;
        plane
            .pools
            .note(split(&request.name).0, &asker.deed(&request));
        Ok(())
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}
