//! Tests of the lane alone: jobs that block, timers, observers, many lanes, an early end.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::Pages;
use crate::memory::MemoryDevice;

fn lane() -> (Lane, Arc<AtomicUsize>) {
    let wakes = Arc::new(AtomicUsize::new(0));
    let bell = (Arc::clone(&wakes), std::thread::current());
    let waker = move || {
        bell.0.fetch_add(1, Ordering::SeqCst);
        bell.1.unpark();
    };
    (Lane::without_io_uring(Arc::new(waker)), wakes)
}

fn take(lane: &mut Lane, count: usize) -> Vec<(u64, Outcome)> {
    let mut taken = Vec::new();
    while taken.len() < count {
        std::thread::park_timeout(Duration::from_millis(100));
        lane.take_completions(&mut taken);
    }
    taken
}

#[test]
fn a_lane_may_move_to_its_loop() {
    fn sendable<T: Send>() {}
    sendable::<Lane>();
    sendable::<Ticket>();
}

#[test]
fn jobs_that_block_are_answered_whatever_happens() {
    let (mut lane, wakes) = lane();
    for token in 0..100 {
        let submitted = lane.run_blocking(Ticket::new(token), move || match token % 3 {
            0 => Ok(Done::Nothing),
            1 => Err(BlockError::new(BlockErrorKind::NoSpace, "full")),
            _ => panic!("on purpose"),
        });
        assert!(matches!(submitted, Submitted::Pending));
    }
    assert_eq!(lane.in_flight(), 100);
    let mut taken = take(&mut lane, 100);
    taken.sort_by_key(|(token, _)| *token);
    for (token, (answered, outcome)) in taken.into_iter().enumerate() {
        assert_eq!(token as u64, answered);
        match token % 3 {
            0 => assert!(outcome.is_ok()),
            1 => assert_eq!(outcome.expect_err("full").kind(), BlockErrorKind::NoSpace),
            _ => assert_eq!(outcome.expect_err("a panic").kind(), BlockErrorKind::Gone),
        }
    }
    assert_eq!(lane.in_flight(), 0);
    assert!(wakes.load(Ordering::SeqCst) > 0);
}

#[derive(Debug)]
struct Recorder(Mutex<Vec<u64>>);

impl Observer for Recorder {
    fn completed(&self, cookie: u64, outcome: Outcome) -> Outcome {
        self.0.lock().expect("no panic").push(cookie);
        outcome
    }
}

#[test]
fn observers_see_a_completion_from_the_inside_out() {
    let (mut lane, _) = lane();
    let recorder = Arc::new(Recorder(Mutex::new(Vec::new())));
    let mut ticket = Ticket::new(5);
    for cookie in [1, 2, 3] {
        ticket.observe(Arc::clone(&recorder) as Arc<dyn Observer>, cookie);
    }
    lane.run_blocking(ticket, || Ok(Done::Nothing));
    take(&mut lane, 1);
    assert_eq!(*recorder.0.lock().expect("no panic"), [3, 2, 1]);
}

#[test]
fn timers_fire_in_order_and_say_when() {
    let (mut lane, _) = lane();
    let device: Arc<dyn BlockDevice> =
        Arc::new(MemoryDevice::new(1 << 20, 512, 1 << 20).expect("a sound size"));
    assert_eq!(lane.next_deadline(), None);
    let now = Instant::now();
    for (token, after) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
        let deadline = now + Duration::from_millis(after);
        let data = Pages::from_bytes(&[token as u8; 512]);
        let request = Request::Write {
            offset: 0,
            data,
            durable: false,
        };
        lane.submit_later(deadline, Arc::clone(&device), request, Ticket::new(token));
    }
    assert_eq!(lane.next_deadline(), Some(now + Duration::from_millis(10)));
    let mut taken = Vec::new();
    lane.take_completions(&mut taken);
    while taken.len() < 4 {
        let due = lane.next_deadline().expect("a timer is left");
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        lane.take_completions(&mut taken);
    }
    let order: Vec<u64> = taken.iter().map(|(token, _)| *token).collect();
    assert_eq!(order, [2, 4, 3, 1]);
    assert_eq!((lane.in_flight(), lane.next_deadline()), (0, None));
}

#[test]
fn observers_see_a_delayed_request_that_the_device_then_answers_at_once() {
    let (mut lane, _) = lane();
    let device = MemoryDevice::new(1 << 20, 512, 1 << 20).expect("a sound size");
    let recorder = Arc::new(Recorder(Mutex::new(Vec::new())));
    let mut ticket = Ticket::new(5);
    for cookie in [1, 2] {
        ticket.observe(Arc::clone(&recorder) as Arc<dyn Observer>, cookie);
    }
    let request = Request::Read {
        offset: 0,
        len: 512,
    };
    lane.submit_later(Instant::now(), Arc::new(device), request, ticket);
    assert_eq!(take(&mut lane, 1)[0].0, 5);
    assert_eq!(*recorder.0.lock().expect("no panic"), [2, 1]);
    assert_eq!(lane.in_flight(), 0);
}

/// Request that another one serves, and that is then answered.
#[derive(Debug)]
struct Served(Mutex<Option<Ticket>>);

impl Continuation for Served {
    fn go_on(self: Arc<Self>, _: u32, outcome: Outcome, lane: &mut Lane) {
        let ticket = self.0.lock().expect("no panic").take();
        let outcome = outcome.map(|_| Done::Extents(Vec::new()));
        lane.complete(ticket.expect("it goes on once"), outcome);
    }
}

#[test]
fn a_request_goes_on_when_the_one_that_serves_it_ends() {
    let (mut lane, _) = lane();
    let recorder = Arc::new(Recorder(Mutex::new(Vec::new())));
    let mut ticket = Ticket::new(5);
    ticket.observe(Arc::clone(&recorder) as Arc<dyn Observer>, 1);
    let served = Arc::new(Served(Mutex::new(Some(ticket))));
    lane.count_pending();
    lane.count_serving();
    lane.run_blocking(Ticket::serving(served, 0), || Ok(Done::Nothing));
    assert_eq!(lane.in_flight(), 2);
    let taken = take(&mut lane, 1);
    // The loop hears of the one that it asked for.
    assert!(
        matches!(&taken[..], [(5, Ok(Done::Extents(_)))]),
        "{taken:?}"
    );
    assert_eq!(*recorder.0.lock().expect("no panic"), [1]);
    assert_eq!(lane.in_flight(), 0);
}

#[test]
fn a_lane_that_ends_lets_requests_go_on_that_are_held_back() {
    let (mut lane, _) = lane();
    let device = MemoryDevice::new(1 << 20, 512, 1 << 20).expect("a sound size");
    let served = Arc::new(Served(Mutex::new(Some(Ticket::new(5)))));
    let request = Request::Read {
        offset: 0,
        len: 512,
    };
    lane.count_pending();
    let until = Instant::now() + Duration::from_secs(600);
    let ticket = Ticket::serving(Arc::clone(&served) as Arc<dyn Continuation>, 0);
    lane.submit_later(until, Arc::new(device), request, ticket);
    lane.count_serving();
    drop(lane);
    assert!(served.0.lock().expect("no panic").is_none());
}

/// Request that was answered another way.
#[derive(Debug)]
struct Nobody;

impl Continuation for Nobody {
    fn go_on(self: Arc<Self>, _: u32, _: Outcome, _: &mut Lane) {}
}

#[test]
fn a_lane_that_ends_waits_for_no_hanging_device_that_serves_nobody() {
    let (mut lane, _) = lane();
    let (go, goes) = std::sync::mpsc::channel::<()>();
    lane.count_serving();
    lane.run_blocking(Ticket::serving(Arc::new(Nobody), 0), move || {
        let _ = goes.recv();
        Ok(Done::Nothing)
    });
    drop(lane);
    drop(go);
}

#[derive(Debug)]
struct Rings(AtomicUsize);

impl Alarm for Rings {
    fn ring(self: Arc<Self>, lane: &mut Lane) {
        if self.0.fetch_add(1, Ordering::SeqCst) < 2 {
            lane.set_alarm(Instant::now(), self);
        }
    }
}

#[test]
fn an_alarm_rings_at_its_time_and_is_no_request() {
    let (mut lane, _) = lane();
    let rings = Arc::new(Rings(AtomicUsize::new(0)));
    let due = Instant::now() + Duration::from_millis(20);
    lane.set_alarm(due, Arc::clone(&rings) as Arc<dyn Alarm>);
    assert_eq!((lane.in_flight(), lane.next_deadline()), (0, Some(due)));
    let mut taken = Vec::new();
    lane.take_completions(&mut taken);
    std::thread::sleep(Duration::from_millis(30));
    while rings.0.load(Ordering::SeqCst) < 3 {
        lane.take_completions(&mut taken);
    }
    assert!(taken.is_empty() && lane.next_deadline().is_none());
    lane.set_alarm(Instant::now() + Duration::from_secs(600), rings);
}

/// Requests that a test gathers, and the batches in which they leave. Each is answered at once.
struct Letters {
    batches: Arc<Mutex<Vec<Vec<u64>>>>,
    tokens: Vec<u64>,
}

impl Gathered for Letters {
    fn hand_over(self: Box<Self>, lane: &mut Lane) {
        for token in &self.tokens {
            lane.complete(Ticket::new(*token), Ok(Done::Nothing));
        }
        self.batches.lock().expect("no panic").push(self.tokens);
    }
}

#[test]
fn gathered_requests_leave_together_and_never_stay() {
    let batches = Arc::new(Mutex::new(Vec::new()));
    let gather = |lane: &mut Lane, key, token| {
        lane.count_pending();
        let begin = || Letters {
            batches: Arc::clone(&batches),
            tokens: Vec::new(),
        };
        lane.gather(key, begin).tokens.push(token);
    };
    let left = || std::mem::take(&mut *batches.lock().expect("no panic"));
    let mut lane = Lane::standing().expect("a lane");
    let mut taken = Vec::new();
    for token in [1, 2] {
        gather(&mut lane, 7, token);
    }
    gather(&mut lane, 8, 3);
    assert!(left().is_empty());
    // A loop with a poller does not sleep.
    assert!(lane.next_deadline().is_some());
    lane.submit_batch();
    let mut first = Vec::new();
    lane.take_completions(&mut first);
    assert_eq!((first.len(), lane.next_deadline()), (3, None));
    let mut all = left();
    all.sort();
    assert_eq!(all, [vec![1, 2], vec![3]]);
    lane.submit_batch();
    assert!(left().is_empty());
    // A loop that looks for completions, or sleeps, has nothing to wait for otherwise.
    gather(&mut lane, 7, 4);
    lane.take_completions(&mut taken);
    assert_eq!((taken.len(), left()), (1, vec![vec![4]]));
    gather(&mut lane, 7, 5);
    lane.wait(Some(Instant::now())).expect("a lane that sleeps");
    assert_eq!(left(), [vec![5]]);
    gather(&mut lane, 7, 6);
    drop(lane);
    assert_eq!(left(), [vec![6]]);
}

#[test]
fn answers_of_a_bundle_wake_each_lane_once() {
    let (mut first, mut second) = (lane(), lane());
    let mut bundle = Bundle::default();
    for token in 0..10 {
        let (lane, _) = if token < 6 { &mut first } else { &mut second };
        lane.count_at_pool();
        bundle.add(
            &lane.remote_of_pool(),
            Ticket::new(token),
            Ok(Done::Nothing),
        );
    }
    // The answers of the first lane left when the first one for another lane came.
    let wakes = |of: &(Lane, Arc<AtomicUsize>)| of.1.load(Ordering::SeqCst);
    assert_eq!((wakes(&first), wakes(&second)), (1, 0));
    bundle.send();
    bundle.send();
    assert_eq!((wakes(&first), wakes(&second)), (1, 1));
    let tokens = |lane: &mut Lane, count| {
        let taken = take(lane, count).into_iter();
        taken.map(|(token, _)| token).collect::<Vec<u64>>()
    };
    assert_eq!(tokens(&mut first.0, 6), [0, 1, 2, 3, 4, 5]);
    assert_eq!(tokens(&mut second.0, 4), [6, 7, 8, 9]);
    assert_eq!((first.0.in_flight(), second.0.in_flight()), (0, 0));
}

#[test]
fn lanes_have_numbers_of_their_own() {
    assert_ne!(lane().0.number(), lane().0.number());
}

#[test]
fn a_standing_lane_sleeps_until_a_completion_or_the_time() {
    let mut lane = Lane::standing().expect("descriptors are left");
    let start = Instant::now();
    let until = start + Duration::from_millis(20);
    while Instant::now() < until {
        lane.wait(Some(until)).expect("it may wait");
    }
    lane.run_blocking(Ticket::new(9), || Ok(Done::Nothing));
    let mut taken = Vec::new();
    while taken.is_empty() {
        lane.wait(None).expect("it may wait");
        lane.take_completions(&mut taken);
    }
    assert_eq!(taken[0].0, 9);
    let waker = lane.waker();
    waker();
    lane.wait(None).expect("it was woken");
}

/// Resident that answers each request one turn later.
#[derive(Debug)]
struct Echo {
    fd: std::os::fd::OwnedFd,
    asked: Mutex<Vec<Ticket>>,
}

impl Resident for Echo {
    fn poll_fd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.fd)
    }

    fn flush(&self, _lane: &mut Lane) {
        if !self.asked.lock().expect("no panic").is_empty() {
            rustix::io::write(&self.fd, &1u64.to_ne_bytes()).expect("an eventfd");
        }
    }

    fn turn(&self, lane: &mut Lane) {
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        for ticket in self.asked.lock().expect("no panic").drain(..) {
            lane.complete(ticket, Ok(Done::Nothing));
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn leave(&self, lane: &mut Lane) {
        self.turn(lane);
    }
}

#[test]
fn a_resident_is_served_with_the_lane() {
    use rustix::event::{EventfdFlags, eventfd};
    let fd = eventfd(0, EventfdFlags::NONBLOCK).expect("a descriptor");
    let asked = Mutex::new(Vec::new());
    let echo = Arc::new(Echo { fd, asked });
    let mut lane = Lane::standing().expect("descriptors are left");
    lane.house(Arc::clone(&echo) as Arc<dyn Resident>)
        .expect("room");
    let mut taken = Vec::new();
    for token in 0..3 {
        lane.count_pending();
        echo.asked
            .lock()
            .expect("no panic")
            .push(Ticket::new(token));
        lane.submit_batch();
        while taken.len() <= token as usize {
            lane.wait(None).expect("it may wait");
            lane.take_completions(&mut taken);
        }
    }
    assert_eq!(lane.in_flight(), 0);
    lane.count_pending();
    echo.asked.lock().expect("no panic").push(Ticket::new(9));
    drop(lane);
    assert!(echo.asked.lock().expect("no panic").is_empty());
}

/// Answers come at any moment: before the lane sleeps, while it falls asleep, while it sleeps, and
/// while it spins. If a call were lost, the lane would sleep for ever.
#[test]
fn no_call_of_a_standing_lane_is_lost() {
    for (at_once, is_pools) in [(1, false), (8, false), (1, true), (8, true)] {
        let mut lane = Lane::standing().expect("descriptors are left");
        let (ask, asked) = std::sync::mpsc::channel::<u64>();
        let (remote, count): (_, fn(&mut Lane)) = match is_pools {
            false => (lane.remote(), Lane::count_pending),
            true => (lane.remote_of_pool(), Lane::count_at_pool),
        };
        let other = std::thread::spawn(move || {
            for token in asked {
                // Delays range from none to more than the lane needs to fall asleep.
                let until = Instant::now() + Duration::from_nanos(token % 97 * 700);
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
                remote.complete(Ticket::new(token), Ok(Done::Nothing));
            }
        });
        let mut taken = Vec::new();
        for token in 0..20_000 {
            count(&mut lane);
            ask.send(token).expect("the other answers");
            let begun = Instant::now();
            while lane.in_flight() >= at_once {
                lane.take_completions(&mut taken);
                if taken.is_empty() {
                    let until = begun + Duration::from_secs(60);
                    lane.wait(Some(until)).expect("the kernel lets us wait");
                    assert!(Instant::now() < until, "a call was lost");
                }
                taken.clear();
            }
        }
        drop(ask);
        other.join().expect("the other ends");
        lane.take_completions(&mut taken);
        assert_eq!((lane.in_flight(), lane.at_pools), (0, 0));
    }
}

/// Calls to a lane that is awake take no system call, and one call is enough to make it look again.
#[test]
fn a_standing_lane_that_was_called_looks_again_before_it_sleeps() {
    let mut lane = Lane::standing().expect("descriptors are left");
    let wake = lane.waker();
    wake();
    wake();
    let (begun, long) = (Instant::now(), Duration::from_secs(600));
    lane.wait(Some(begun + long)).expect("it does not sleep");
    assert!(begun.elapsed() < long);
    // Both calls were noticed.
    let short = Instant::now() + Duration::from_millis(20);
    lane.wait(Some(short)).expect("it sleeps");
    assert!(Instant::now() >= short);
}
