//! The thread that asks the daemon for figures, so that the screen answers keys while the daemon
//! does not answer.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use control::Client;
use control::endpoint::pool;
use model::Error;
use model::figures::Snapshot;

use super::rows::Sample;
use crate::Connection;
use crate::figures::rates::fetch;

/// Time after which a daemon that did not answer is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Request of the screen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// The time from update to update changes.
    Pace(Duration),
    /// Figures are wanted now.
    Now,
}

/// The two ends of the thread that the screen holds.
#[derive(Debug)]
pub(super) struct Feed {
    /// Way to the thread. Dropping it ends the thread.
    pub(super) orders: Sender<Order>,
    /// Figures, or the reason why there are none.
    pub(super) samples: Receiver<Result<Sample, Error>>,
}

/// Starts the thread.
///
/// # Errors
/// The system has no thread left.
pub(super) fn start(connection: &Connection, pace: Duration) -> std::io::Result<Feed> {
    let (orders, receiver) = channel();
    let (sender, samples) = channel();
    let client = connection.client();
    std::thread::Builder::new()
        .name("feed".into())
        .spawn(move || run(&client, pace, &receiver, &sender))?;
    Ok(Feed { orders, samples })
}

fn run(
    client: &Client,
    mut pace: Duration,
    orders: &Receiver<Order>,
    samples: &Sender<Result<Sample, Error>>,
) {
    let mut before = Snapshot::default();
    let mut due = Instant::now();
    loop {
        let sample = sample(client, &before);
        due = match &sample {
            Ok(sample) => {
                before = sample.snapshot.clone();
                (due + pace).max(Instant::now())
            }
            Err(_) => Instant::now() + ASK_AGAIN,
        };
        if samples.send(sample).is_err() {
            return;
        }
        let begun = Instant::now();
        loop {
            let wait = due.saturating_duration_since(Instant::now());
            match orders.recv_timeout(wait) {
                Ok(Order::Pace(new)) => {
                    pace = new;
                    due = due.min(begun + pace);
                }
                Ok(Order::Now) | Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        due = due.min(Instant::now());
    }
}

fn sample(client: &Client, before: &Snapshot) -> Result<Sample, Error> {
    Ok(Sample {
        snapshot: fetch::after(client, before)?,
        pools: client.call(&pool::LIST, &[])?,
    })
}
