//! Test that memory of pages goes back to the system when it is not needed. It runs alone in its
//! process, because it counts the memory of the whole process.

use std::sync::mpsc;

use pages::PagesMut;
use pages::{mapped_bytes, trim};

const MIB: usize = 1 << 20;

#[test]
fn a_burst_leaves_little_behind_and_a_trim_nothing() {
    let burst = || -> Vec<_> { (0..256).map(|_| PagesMut::allocate(MIB).freeze()).collect() };
    let first = burst();
    let peak = mapped_bytes();
    assert!((256 * MIB..300 * MIB).contains(&peak), "{peak}");
    // The page is dropped on another thread, as when one loop reads and another answers.
    let (sender, receiver) = mpsc::channel();
    let other = std::thread::spawn(move || receiver.into_iter().for_each(drop));
    for pages in first {
        sender.send(pages).expect("the thread lives");
    }
    drop(sender);
    other.join().expect("nothing panics");
    let kept = mapped_bytes();
    assert!(kept <= 80 * MIB, "{kept}");
    drop(burst());
    assert!(mapped_bytes() <= peak + 8 * MIB, "memory is used again");
    trim();
    assert_eq!(mapped_bytes(), 0);
}
