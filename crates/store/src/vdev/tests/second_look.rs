//! Tests of the second look: bad copies are read a second time before they are overwritten.

use pages::Pages;

use super::rig::{Rig, block, content};
use crate::format::Address;
use crate::vdev::*;

fn is_writing(rig: &Rig) -> bool {
    let mut pending = rig.pending.iter();
    pending.any(|request| matches!(request.op, DeviceOp::Write { .. }))
}

fn scrubbed(rig: &mut Rig, tag: u64) -> Scrubbed {
    match rig.done.remove(&tag) {
        Some(ArrayDone::Scrubbed(result)) => result.expect("there is a right copy"),
        other => panic!("{other:?}"),
    }
}

/// Returns bytes that were never written.
fn wrong() -> Pages {
    Pages::from_bytes(&vec![9; 4 * 4096])
}

fn unreadable() -> DeviceOutcome {
    Err(DeviceError::new(DeviceErrorKind::Medium, "a bad sector"))
}

/// Makes a mirror with one block, and starts a read or scrub of the block.
fn asked(leaves: u64, is_scrub: bool) -> (Rig, Pages, u64) {
    let mut rig = Rig::new(TopLevelKind::Mirror, leaves);
    let data = content(1, 4);
    rig.write(Address::new(0, 0), &data).expect("written");
    let block = block(0, &data, 1);
    let tag = match is_scrub {
        true => rig.ask(|array, tag, now_us, out| array.scrub_block(tag, block, now_us, out)),
        false => rig.start_read(&block),
    };
    (rig, data, tag)
}

fn take(rig: &mut Rig, leaf: LeafId) -> DeviceRequest {
    let at = rig.pending.iter().position(|request| request.leaf == leaf);
    rig.pending.remove(at.expect("it is asked"))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rewritten {
    Never,
    /// The place is rewritten while it is read.
    First,
    /// The place is rewritten while bad copies are read once more.
    Again,
}

#[test]
fn an_old_block_is_never_repaired_over_a_new_one() {
    for when in [Rewritten::Never, Rewritten::First, Rewritten::Again] {
        let mut rig = Rig::new(TopLevelKind::Mirror, 2);
        let (old, new) = (content(1, 4), content(2, 4));
        rig.write(Address::new(0, 0), &old).expect("written");
        let write_new = |rig: &mut Rig| {
            let write = rig.start_write(Address::new(0, 0), &new);
            rig.run();
            rig.written(write).expect("written");
        };
        // A read of the old block comes back from one leaf when the other one has the new block.
        let tag = rig.start_read(&block(0, &old, 1));
        let asked = rig.pending.pop().expect("one leaf is asked");
        if when == Rewritten::First {
            write_new(&mut rig);
        }
        // One leaf returns wrong bytes, the other the old ones, as if it had been asked early.
        let other = LeafId(1 - asked.leaf.0);
        rig.with(|array, out| array.completed(asked.io, Ok(wrong()), 1, out));
        let second = rig.pending.pop().expect("the other leaf is asked");
        assert_eq!(second.leaf, other);
        rig.with(|array, out| array.completed(second.io, Ok(old.clone()), 2, out));
        assert_eq!(rig.was_read(tag).expect("right").to_vec(), old.to_vec());
        assert!(!is_writing(&rig), "{when:?}");
        if when != Rewritten::First {
            let again = rig.pending.pop().expect("it is asked once more");
            assert_eq!(again.leaf, asked.leaf);
            if when == Rewritten::Again {
                write_new(&mut rig);
            }
            rig.with(|array, out| array.completed(again.io, Ok(wrong()), 3, out));
        }
        // The block is repaired only if nothing new was written.
        assert_eq!(is_writing(&rig), when == Rewritten::Never);
        rig.run();
        let now = match when {
            Rewritten::Never => old,
            Rewritten::First | Rewritten::Again => new,
        };
        assert_eq!(
            rig.scrub(&block(0, &now, 1)).expect("readable"),
            Scrubbed::default()
        );
    }
}

/// A power cut while a copy is overwritten may leave its sectors neither old nor new.
#[test]
fn a_copy_that_is_right_when_it_is_read_again_is_not_written_over() {
    let kinds = [
        (TopLevelKind::Mirror, 2),
        (TopLevelKind::Raidz { parity: 1 }, 2),
    ];
    for ((kind, count), fails) in kinds.into_iter().flat_map(|of| [(of, true), (of, false)]) {
        for is_scrub in [false, true] {
            let mut rig = Rig::new(kind, count);
            let data = content(1, 4);
            rig.write(Address::new(0, 0), &data).expect("written");
            let block = block(0, &data, 1);
            let tag = match is_scrub {
                true => rig.ask(|array, tag, now_us, out| {
                    array.scrub_block(tag, block.clone(), now_us, out);
                }),
                false => rig.start_read(&block),
            };
            let asked = rig.pending.pop().expect("a leaf is asked");
            let outcome = if fails { unreadable() } else { Ok(wrong()) };
            rig.with(|array, out| array.completed(asked.io, outcome, 1, out));
            let writes_before: u32 = rig.disks.iter().map(|disk| disk.writes as u32).sum();
            rig.run();
            match is_scrub {
                true => assert_eq!(scrubbed(&mut rig, tag), Scrubbed::default()),
                false => assert_eq!(rig.was_read(tag).expect("right").to_vec(), data.to_vec()),
            }
            let writes: u32 = rig.disks.iter().map(|disk| disk.writes as u32).sum();
            assert_eq!(writes, writes_before, "{kind:?}, {fails}, {is_scrub}");
            let errors = rig.errors(asked.leaf.0);
            let counted = (errors.read, errors.checksum);
            assert_eq!(counted, (fails.into(), (!fails).into()), "{kind:?}");
        }
    }
}

/// A leaf that was put aside is asked nothing. Its device may be closed already, and its answer
/// would say that it is gone.
#[test]
fn a_leaf_that_was_put_aside_is_not_read_again() {
    let (mut rig, data, tag) = asked(2, true);
    let first = take(&mut rig, LeafId(0));
    rig.with(|array, out| array.completed(first.io, Ok(wrong()), 1, out));
    rig.with(|array, out| array.offline(LeafId(0), 1, out))
        .expect("can be spared");
    let other = take(&mut rig, LeafId(1));
    rig.with(|array, out| array.completed(other.io, Ok(data), 2, out));
    assert!(rig.pending.iter().all(|request| request.leaf != LeafId(0)));
    rig.run();
    assert_eq!(rig.status(0).state, VdevState::Offline);
    let (bad, repaired) = (1, 0);
    assert_eq!(scrubbed(&mut rig, tag), Scrubbed { bad, repaired });
    assert_eq!(rig.errors(0).checksum, 1);
}

/// A late answer of the first round is no second look. It counts, and that copy is not overwritten.
#[test]
fn what_comes_late_is_not_written_over_after_one_look() {
    for outcome in [unreadable(), Ok(wrong())] {
        let (mut rig, data, tag) = asked(3, false);
        let first = rig.pending.pop().expect("one leaf is asked");
        rig.with(|array, out| array.completed(first.io, Ok(wrong()), 1, out));
        let second = rig.pending.pop().expect("the others are asked");
        let late = rig.pending.pop().expect("the others are asked");
        rig.with(|array, out| array.completed(second.io, Ok(data.clone()), 2, out));
        assert_eq!(rig.was_read(tag).expect("right").to_vec(), data.to_vec());
        let again = take(&mut rig, first.leaf);
        let is_error = outcome.is_err();
        rig.with(|array, out| array.completed(late.io, outcome, 3, out));
        assert_eq!(rig.errors(late.leaf.0).read, u64::from(is_error));
        rig.with(|array, out| array.completed(again.io, Ok(data), 4, out));
        assert!(!is_writing(&rig));
    }
}

/// The copy is known to have been bad; its present state is unknown.
#[test]
fn a_copy_that_was_bad_and_cannot_be_looked_at_again_is_told_by_a_scrub() {
    let (mut rig, data, tag) = asked(2, true);
    for (leaf, outcome) in [(0, Ok(wrong())), (1, Ok(data))] {
        let request = take(&mut rig, LeafId(leaf));
        rig.with(|array, out| array.completed(request.io, outcome, 1, out));
    }
    let again = take(&mut rig, LeafId(0));
    let gone = DeviceError::new(DeviceErrorKind::Gone, "it was pulled");
    rig.with(|array, out| array.completed(again.io, Err(gone), 2, out));
    rig.run();
    let (bad, repaired) = (1, 0);
    assert_eq!(scrubbed(&mut rig, tag), Scrubbed { bad, repaired });
    let is_told = |event: &VdevEvent| {
        matches!(
            event,
            VdevEvent::Unrepaired {
                leaf: LeafId(0),
                ..
            }
        )
    };
    assert_eq!(rig.events.iter().filter(|event| is_told(event)).count(), 1);
}

/// A device is believed without a checksum. It is not believed if it could not read the copy and
/// then returns other bytes.
#[test]
fn without_a_checksum_a_copy_that_failed_must_be_the_same_when_it_is_read_again() {
    for is_right in [true, false] {
        let (mut rig, data, _) = asked(2, false);
        rig.run();
        let block = Block {
            verify: Verify::None,
            ..block(0, &data, 1)
        };
        let tag = rig.ask(|array, tag, now_us, out| array.scrub_block(tag, block, now_us, out));
        for (leaf, outcome) in [(0, unreadable()), (1, Ok(data.clone()))] {
            let request = take(&mut rig, LeafId(leaf));
            rig.with(|array, out| array.completed(request.io, outcome, 1, out));
        }
        let again = take(&mut rig, LeafId(0));
        let outcome = if is_right { data } else { wrong() };
        rig.with(|array, out| array.completed(again.io, Ok(outcome), 2, out));
        rig.run();
        let bad = u32::from(!is_right);
        let expected = Scrubbed { bad, repaired: bad };
        assert_eq!(scrubbed(&mut rig, tag), expected);
    }
}

/// The copy's leaf comes back while another one is read again.
#[test]
fn who_could_not_be_asked_again_is_not_written_over() {
    let (mut rig, data, tag) = asked(3, true);
    for leaf in [0, 1] {
        let request = take(&mut rig, LeafId(leaf));
        rig.with(|array, out| array.completed(request.io, Ok(wrong()), 1, out));
    }
    rig.with(|array, out| array.offline(LeafId(0), 1, out))
        .expect("can be spared");
    let last = take(&mut rig, LeafId(2));
    rig.with(|array, out| array.completed(last.io, Ok(data.clone()), 2, out));
    let again = take(&mut rig, LeafId(1));
    rig.with(|array, out| array.online(LeafId(0), out))
        .expect("there");
    rig.with(|array, out| array.completed(again.io, Ok(data), 3, out));
    assert!(!is_writing(&rig));
    let (bad, repaired) = (1, 0);
    assert_eq!(scrubbed(&mut rig, tag), Scrubbed { bad, repaired });
}
