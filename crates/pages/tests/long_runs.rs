//! Tests that long buffers get long runs of memory, also after long use of the memory. They run
//! alone in their process, because they look at the places of pages.

use std::collections::VecDeque;

use pages::{PAGE_SIZE, Pages, PagesMut, mapped_bytes};

const MIB: usize = 1 << 20;
const BLOCK: usize = 4 * PAGE_SIZE;

/// Counts the pieces of memory of a buffer.
fn pieces(data: &Pages) -> usize {
    let mut end = std::ptr::null();
    let ends = data.chunks().map(|chunk| {
        let range = chunk.as_ptr_range();
        let is_next = std::ptr::eq(end, range.start);
        end = range.end;
        is_next
    });
    ends.filter(|is_next| !is_next).count()
}

/// Imitates a cache at work. Blocks of long reads leave nearly in the order in which they came, but
/// one of eight stays for long. Single pages come and go meanwhile.
#[test]
fn buffers_stay_in_few_pieces_while_blocks_come_and_go() {
    let (mut young, mut old, mut singles) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    let (mut most_mapped, mut all, mut reads) = (0, 0, 0);
    for round in 0..400 {
        let data = PagesMut::allocate(MIB).freeze();
        if round >= 200 {
            all += pieces(&data);
            reads += 1;
        }
        for at in (0..MIB).step_by(BLOCK) {
            young.push_back(data.slice(at..at + BLOCK).trimmed());
            singles.push_back(PagesMut::allocate(PAGE_SIZE).freeze());
        }
        drop(data);
        while young.len() > 16 * MIB / BLOCK {
            let block = young.remove(random(128)).expect("there are more");
            if random(8) == 0 {
                old.push_back(block.settled());
            }
        }
        while old.len() > 64 * MIB / BLOCK {
            old.remove(random(1024));
        }
        while singles.len() > 4096 {
            singles.remove(random(4096));
        }
        most_mapped = most_mapped.max(mapped_bytes());
    }
    let average = all / reads;
    assert!(average <= 64, "{average} pieces of 256 pages");
    // The buffers use 16 + 64 + 16 MiB.
    assert!(most_mapped <= 120 * MIB, "{} MiB", most_mapped / MIB);
}
