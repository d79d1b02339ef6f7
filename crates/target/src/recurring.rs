//! A thread for work that is repeated while it is needed, and may block. It sleeps without end
//! while the work is not needed.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Control of the thread.
#[derive(Debug)]
pub(super) struct Recurring {
    orders: Mutex<Sender<Order>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Whether work is needed at every interval.
    Needed(bool),
    /// Order to work once, whether or not work is needed.
    Now,
    Stop,
}

/// Orders that the thread will receive.
#[derive(Debug)]
pub(super) struct Orders(Receiver<Order>);

impl Recurring {
    /// Returns the control, and the orders with which [`Orders::start`] starts the thread.
    pub(super) fn new() -> (Self, Orders) {
        let (orders, receiver) = channel();
        let orders = Mutex::new(orders);
        (Self { orders }, Orders(receiver))
    }

    /// Sets whether there is work. The work is done after an interval and not at once: the work
    /// itself may call this and must not trigger its own repetition.
    pub(super) fn set_needed(&self, needed: bool) {
        self.send(Order::Needed(needed));
    }

    /// Requests the work once, soon.
    pub(super) fn now(&self) {
        self.send(Order::Now);
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.send(Order::Stop);
    }

    fn send(&self, order: Order) {
        // A thread that has ended needs no orders.
        let _ = self
            .orders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(order);
    }
}

impl Orders {
    /// Starts the thread.
    ///
    /// # Errors
    /// The kernel refuses a thread.
    pub(super) fn start(
        self,
        name: &str,
        interval: Duration,
        work: impl FnMut() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new()
            .name(name.into())
            .spawn(move || run(&self.0, interval, work))
    }
}

fn run(orders: &Receiver<Order>, interval: Duration, mut work: impl FnMut()) {
    // Time at which the work is done next, while it is needed. A repeated order does not delay it.
    let mut due: Option<Instant> = None;
    loop {
        let order = match due {
            Some(due) => orders.recv_timeout(due.saturating_duration_since(Instant::now())),
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match order {
            Ok(Order::Needed(true)) => due = due.or_else(|| Some(Instant::now() + interval)),
            Ok(Order::Needed(false)) => due = None,
            Ok(Order::Now) => work(),
            Err(RecvTimeoutError::Timeout) => {
                work();
                due = Some(Instant::now() + interval);
            }
            Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a thread that reports each time that it works.
    fn started(interval: Duration) -> (Recurring, Receiver<()>, JoinHandle<()>) {
        let (control, orders) = Recurring::new();
        let (done, times) = channel();
        let work = move || done.send(()).expect("the test listens");
        let thread = orders.start("test", interval, work).expect("a thread");
        (control, times, thread)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn works_once_when_told_so_and_sleeps_while_nothing_is_needed() {
        let (control, times, thread) = started(Duration::from_millis(1));
        control.now();
        assert_eq!(times.recv_timeout(LONG), Ok(()));
        control.set_needed(false);
        let quiet = times.recv_timeout(Duration::from_millis(50));
        assert_eq!(quiet, Err(RecvTimeoutError::Timeout));
        control.stop();
        thread.join().expect("it ends");
    }

    #[test]
    fn works_again_and_again_while_it_is_needed() {
        let (control, times, thread) = started(Duration::from_millis(1));
        control.set_needed(true);
        for _ in 0..5 {
            assert_eq!(times.recv_timeout(LONG), Ok(()));
        }
        control.stop();
        thread.join().expect("it ends");
    }

    #[test]
    fn saying_that_it_is_needed_does_not_set_it_off() {
        let (control, times, thread) = started(LONG);
        for _ in 0..5 {
            control.set_needed(true);
        }
        control.stop();
        thread.join().expect("it ends");
        assert_eq!(times.try_iter().count(), 0);
    }

    /// Tests that verbs which come without a pause, and so repeat the order all the time, do not
    /// delay the work.
    #[test]
    fn saying_again_that_it_is_needed_does_not_put_it_off() {
        let (control, times, thread) = started(Duration::from_millis(20));
        while times.try_recv().is_err() {
            control.set_needed(true);
            std::thread::yield_now();
        }
        control.stop();
        thread.join().expect("it ends");
    }
}
