//! Messages during an opening that waits for the proof that no other host has the pool.

use std::time::Duration;

use super::super::{Connection, Failure, Terminal};
use control::endpoint::pool;
use model::Error;
use model::pool::import::WaitView;

/// Time between two questions to the daemon about its progress. Verbs that end earlier print
/// nothing.
const PAUSE: Duration = Duration::from_millis(500);

/// Does some work, and prints meanwhile what the daemon waits for.
pub(super) fn told<T: Send>(
    t: &mut Terminal<'_>,
    connection: &Connection,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let (over, is_over) = std::sync::mpsc::channel::<()>();
        let worker = scope.spawn(move || {
            let done = work();
            drop(over);
            done
        });
        let mut said = String::new();
        while let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = is_over.recv_timeout(PAUSE) {
            // Whatever it is that cannot be told, the work goes on.
            let waits: Vec<WaitView> = connection
                .client()
                .call(&pool::WAITS, &[])
                .unwrap_or_default();
            let Some(wait) = waits.iter().find(|wait| wait.why != said) else {
                continue;
            };
            said.clone_from(&wait.why);
            let seconds = match wait.seconds {
                1 => "1 second".to_owned(),
                seconds => format!("{seconds} seconds"),
            };
            writeln!(t.err, "pool {}: {} (about {seconds})", wait.pool, wait.why)?;
        }
        let done = worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(done?)
    })
}
