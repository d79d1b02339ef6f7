//! Handlers of requests about streams, which carry snapshots to and from other pools. Bodies may
//! have any length and move in pieces, at the pace of the slower side.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body as Stream;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use listener::MayRest;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver as Inbox, Sender as Outbox, channel};

use super::apart;
use super::routes::Routes;
use crate::answer::{Body, Params, Problem, json};
use crate::asker::Asker;
use crate::author::Author;
use crate::call::Call;
use crate::endpoint::stream::{self as at, Abort};
use crate::plane::{Plane, Shared};
use crate::streaming::{PIECES, Pieces};
use model::pool::dataset::name::split;
use model::pool::salvage::SalvageRequest;
use model::pool::stream::{PartView, ReceiveRequest, ReceiveView, SendRequest};
use model::{Error, ErrorKind};
use pools::stream::Begins;

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .stream(&at::SEND, send)
        .serve(&at::ESTIMATE, estimate)
        .stream(&at::RECEIVE, receive)
        .serve(&at::ABORT, abort)
        .stream(&at::SALVAGE, salvage)
}

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
    Ok(streamed(inbox))
}

/// Returns an answer of any length. Its reader may rest: the pool at its other end may wait for
/// disks.
fn streamed(inbox: Inbox<std::io::Result<Bytes>>) -> Response {
    let kind = [(CONTENT_TYPE, "application/octet-stream")];
    let mut answer = (kind, Stream::new(Pieces(inbox))).into_response();
    answer.extensions_mut().insert(MayRest);
    answer
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
    Ok(streamed(inbox))
}

pub(super) fn estimate(call: Call<(), SendRequest>) -> Result<Vec<PartView>, Error> {
    let Call {
        plane,
        body: request,
        ..
    } = call;
    Author::asks_only();
    plane.pools.sender(&request)?.estimate()
}

/// Receives snapshots. A snapshot is not visible before all of it has arrived. This is refused
/// while logical units serve the volume.
pub(super) async fn receive(
    State(plane): State<Shared>,
    asker: Asker,
    Params(request): Params<ReceiveRequest>,
    mut stream: Stream,
) -> Result<Response, Problem> {
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
    outcome.map(|views| json(&views))
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

pub(super) fn abort(call: Call<(), Abort>) -> Result<(), Error> {
    let Call {
        plane,
        asker,
        body: request,
        ..
    } = call;
    plane.pools.abort_receive(&request.name)?;
    plane
        .pools
        .note(split(&request.name).0, &asker.deed(&request));
    Ok(())
}
