//! Promises that only the memory device makes; the rest is in the shared suite.

use std::sync::Arc;

use super::*;

const MIB: u64 = 1 << 20;

fn lane() -> Lane {
    Lane::without_io_uring(Arc::new(|| {}))
}

fn run(device: &MemoryDevice, request: Request) -> Result<Done, BlockError> {
    match device.submit(request, Ticket::new(0), &mut lane()) {
        Submitted::Ready(outcome) => outcome,
        Submitted::Pending => panic!("memory answers at once"),
    }
}

fn write(device: &MemoryDevice, offset: u64, data: Pages) -> Result<Done, BlockError> {
    run(
        device,
        Request::Write {
            offset,
            data,
            durable: false,
        },
    )
}

fn read(device: &MemoryDevice, offset: u64, len: u32) -> Pages {
    match run(device, Request::Read { offset, len }) {
        Ok(Done::Pages(pages)) => pages,
        other => panic!("{other:?}"),
    }
}

#[test]
fn whole_pages_are_neither_copied_in_nor_out() {
    let device = MemoryDevice::new(MIB, 512, MIB).expect("a sound size");
    let data = Pages::from_bytes(&[5; 2 * PAGE_SIZE]);
    let address = data.whole_page(0).expect("whole").as_ptr();
    write(&device, 8192, data).expect("fits");
    let back = read(&device, 8192, 4096);
    assert_eq!(back.whole_page(0).expect("whole").as_ptr(), address);
    let part = read(&device, 8192 + 512, 512);
    assert_eq!(
        part.chunks().next().expect("a chunk").as_ptr(),
        address.wrapping_add(512)
    );
}

#[test]
fn a_reader_keeps_what_it_read() {
    let device = MemoryDevice::new(MIB, 512, MIB).expect("a sound size");
    write(&device, 0, Pages::from_bytes(&[1; 4096])).expect("fits");
    let old = read(&device, 0, 4096);
    write(&device, 512, Pages::from_bytes(&[2; 512])).expect("fits");
    assert!(old == [1; 4096]);
    let mut new = [1; 4096];
    new[512..1024].fill(2);
    assert!(read(&device, 0, 4096) == new);
}

#[test]
fn full_is_no_space_and_overwriting_still_works() {
    let device = MemoryDevice::new(MIB, 512, 8192).expect("a sound size");
    write(&device, 0, Pages::from_bytes(&[1; 8192])).expect("fits");
    let error = write(&device, 65536, Pages::from_bytes(&[2; 512])).expect_err("full");
    assert_eq!(
        (error.kind(), error.offset()),
        (BlockErrorKind::NoSpace, Some(65536))
    );
    write(&device, 0, Pages::from_bytes(&[3; 4096])).expect("already allocated");
    assert_eq!(
        device.usage().expect("known"),
        Usage {
            allocated: 8192,
            pool: Some(PoolSpace {
                available: 0,
                capacity: 8192
            })
        }
    );
    run(
        &device,
        Request::Discard {
            offset: 0,
            len: 4096,
        },
    )
    .expect("frees");
    write(&device, 65536, Pages::from_bytes(&[2; 512])).expect("fits again");
    assert!(read(&device, 4096, 4096) == [1; 4096]);
}

#[test]
fn extents_of_a_full_device_are_told_a_piece_at_a_time() {
    const LEN: u64 = 256 * MIB;
    let device = MemoryDevice::new(LEN, 4096, LEN).expect("a sound size");
    let data = Pages::from_bytes(&vec![7; MIB as usize]);
    for offset in (0..LEN).step_by(MIB as usize) {
        write(&device, offset, data.clone()).expect("room");
    }
    let mut at = 0;
    let mut pieces = 0;
    while at < LEN {
        let len = LEN - at;
        let told = match run(&device, Request::Extents { offset: at, len }) {
            Ok(Done::Extents(told)) => told,
            other => panic!("{other:?}"),
        };
        let [(run, true)] = told[..] else {
            panic!("one run of data is left: {told:?}");
        };
        at += run;
        pieces += 1;
    }
    assert_eq!(at, LEN);
    assert_eq!(pieces, LEN / (PAGE * MAX_LOOKS as u64));
    // Empty parts are skipped quickly.
    let empty = MemoryDevice::new(1 << 40, 4096, MIB).expect("a sound size");
    let all = Request::Extents {
        offset: 0,
        len: 1 << 40,
    };
    assert!(matches!(run(&empty, all), Ok(Done::Extents(told)) if told == [(1 << 40, false)]));
}

#[test]
fn a_large_empty_device_costs_little() {
    let before = pages::mapped_bytes();
    let device = MemoryDevice::new(1 << 40, 4096, 1 << 40).expect("a sound size");
    write(&device, (1 << 40) - 4096, Pages::from_bytes(&[1; 4096])).expect("fits");
    assert!(read(&device, 1 << 39, 8192) == [0; 8192]);
    run(
        &device,
        Request::Discard {
            offset: 0,
            len: 1 << 40,
        },
    )
    .expect("quick");
    assert!(read(&device, (1 << 40) - 4096, 4096) == [0; 4096]);
    assert_eq!(device.usage().expect("known").allocated, 0);
    assert!(pages::mapped_bytes() < before + (64 << 20));
}

#[test]
fn zeros_that_stay_allocated_take_no_page() {
    let device = MemoryDevice::new(MIB, 512, MIB).expect("a sound size");
    let zeroes = Request::WriteZeroes {
        offset: 0,
        len: 65536,
        unmap: false,
        durable: false,
    };
    run(&device, zeroes).expect("fits");
    assert_eq!(device.usage().expect("known").allocated, 65536);
    match run(
        &device,
        Request::Extents {
            offset: 4096,
            len: 131_072,
        },
    ) {
        Ok(Done::Extents(runs)) => assert_eq!(runs, [(61440, true), (69632, false)]),
        other => panic!("{other:?}"),
    }
    assert!(
        read(&device, 0, 4096)
            .whole_page(0)
            .expect("whole")
            .is_zero()
    );
}

#[test]
fn a_request_that_breaks_the_rules_is_refused() {
    let device = MemoryDevice::new(MIB, 4096, MIB).expect("a sound size");
    for (offset, len) in [
        (0, 512),
        (512, 4096),
        (MIB, 4096),
        (MIB - 4096, 8192),
        (u64::MAX - 4095, 4096),
        (0, 0),
    ] {
        let error = run(&device, Request::Read { offset, len }).expect_err("breaks a rule");
        let fits = offset
            .checked_add(u64::from(len))
            .is_some_and(|end| end <= MIB);
        let expected = if fits {
            BlockErrorKind::Invalid
        } else {
            BlockErrorKind::OutOfRange
        };
        assert_eq!(error.kind(), expected, "{offset}+{len}");
    }
    assert!(MemoryDevice::new(0, 512, 0).is_err());
    assert!(MemoryDevice::new(1000, 512, 0).is_err());
    assert!(MemoryDevice::new(4096, 1024, 0).is_err());
}

#[test]
fn no_reader_sees_half_a_page() {
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 20_000 };
    let device = MemoryDevice::new(MIB, 512, MIB).expect("a sound size");
    std::thread::scope(|scope| {
        for number in 0..2u8 {
            let device = &device;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let byte = (round as u8) << 1 | number;
                    write(device, 4096, Pages::from_bytes(&[byte; 8192])).expect("fits");
                }
            });
        }
        for _ in 0..ROUNDS {
            for chunk in read(&device, 4096, 8192).chunks() {
                assert!(chunk.iter().all(|byte| *byte == chunk[0]), "a torn page");
            }
        }
    });
}

#[test]
fn foresight_of_anything_changes_nothing() {
    let device = MemoryDevice::new(MIB, 512, MIB).expect("a sound size");
    write(&device, 4096, Pages::from_bytes(&[5; 4096])).unwrap();
    for is_read in [false, true] {
        let places = [0, 4096, 4608, MIB - 512, MIB, u64::MAX];
        let accesses = places.map(|offset| super::super::Foreseen { offset, is_read });
        device.foresee(&accesses);
    }
    assert_eq!(read(&device, 4096, 4096).to_vec(), [5; 4096]);
    assert_eq!(device.usage().unwrap().allocated, PAGE);
}
