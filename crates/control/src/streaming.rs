//! Bodies of any length, piece by piece, in both directions: the client's side of streams.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{Receiver, channel};

use super::answer::Problem;
use super::client::{Client, decode, json, path, strange};
use super::endpoint::Endpoint;
use super::endpoint::stream::Octets;
use model::{Error, ErrorKind};

/// Most pieces that wait to be taken.
pub(super) const PIECES: usize = 8;
/// Bytes of a piece that is read at once.
const PIECE: usize = 256 << 10;

/// A body whose pieces come from a channel. A piece that is an error ends the connection.
pub(super) struct Pieces(pub(super) Receiver<io::Result<Bytes>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

impl Client {
    /// Sends `body` and takes the answer piece by piece.
    ///
    /// # Errors
    /// As for every request; or what `take` says.
    pub fn download<B: Serialize>(
        &self,
        endpoint: &Endpoint<(), B, Octets>,
        body: &B,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (path, body) = (path(endpoint, &[], &())?, json(body)?);
        self.within(async {
            let body = Full::new(Bytes::from(body));
            let answer = self.request(&path, "application/json", body).await?;
            let mut answer = self.successful(answer).await?.into_body();
            while let Some(frame) = answer.frame().await {
                let frame = frame.map_err(|error| self.broken(&error))?;
                if let Ok(bytes) = frame.into_data() {
                    take(&bytes)?;
                }
            }
            Ok(())
        })
    }

    /// Sends all of `source`, as far as it is taken, and decodes the answer.
    ///
    /// # Errors
    /// As for every request.
    pub fn upload<Q: Serialize, A: DeserializeOwned>(
        &self,
        endpoint: &Endpoint<Q, Octets, A>,
        query: &Q,
        mut source: impl Read + Send + 'static,
    ) -> Result<A, Error> {
        let path = path(endpoint, &[], query)?;
        let (outbox, inbox) = channel(PIECES);
        // The thread may wait for its source for ever. No other thread waits for this one.
        std::thread::spawn(move || {
            loop {
                let mut piece = vec![0; PIECE];
                let piece = match source.read(&mut piece) {
                    Ok(0) => return,
                    Ok(len) => {
                        piece.truncate(len);
                        Ok(Bytes::from(piece))
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let is_last = piece.is_err();
                if outbox.blocking_send(piece).is_err() || is_last {
                    return;
                }
            }
        });
        self.within(async {
            let kind = "application/octet-stream";
            let answer = self.request(&path, kind, Pieces(inbox)).await?;
            let answer = self.successful(answer).await?.into_body();
            let bytes = answer
                .collect()
                .await
                .map_err(|error| self.broken(&error))?;
            decode(&bytes.to_bytes())
        })
    }

    fn within<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| self.unreachable(&error))?;
        runtime.block_on(work)
    }

    async fn request<B>(&self, path: &str, kind: &str, body: B) -> Result<Response<Incoming>, Error>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::error::Error + Send + Sync,
    {
        let (stream, host) = self.connect().await?;
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|error| self.broken(&error))?;
        tokio::spawn(connection);
        let request = Request::builder().method(Method::POST).uri(path);
        let request = self
            .introduce(request, &host)?
            .header(CONTENT_TYPE, kind)
            .body(body);
        let request = request.map_err(|error| {
            let message = format!("{path:?} is not a valid path: {error}");
            Error::invalid(message, "report this as a defect")
        })?;
        let answer = sender.send_request(request).await;
        answer.map_err(|error| self.broken(&error))
    }

    /// Returns the answer, unless it is a problem.
    async fn successful(&self, answer: Response<Incoming>) -> Result<Response<Incoming>, Error> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let bytes = answer.into_body().collect().await;
        let bytes = bytes.map_err(|error| self.broken(&error))?.to_bytes();
        match serde_json::from_slice::<Problem>(&bytes) {
            Ok(problem) => Err(problem.into()),
            Err(_) => Err(strange(status)),
        }
    }

    fn broken(&self, error: &hyper::Error) -> Error {
        Error::new(
            ErrorKind::Unavailable,
            format!(
                "the connection to the daemon at {} was lost: {error}",
                self.address()
            ),
            "sandstone status",
        )
        .not_changed(
            "data that was received without -s is discarded; with -s, see `sandstone volume get \
             receive_resume_token`",
        )
    }
}
