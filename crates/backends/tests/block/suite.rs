//! The suite of tests that every block device must pass.

use std::sync::Arc;

use block::{BlockDevice, BlockErrorKind, Done, Pages, PagesMut, Request};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::driver::{Driver, Path};

/// Length of the part of a device that the model covers.
const WINDOW: u64 = 1 << 20;

/// Runs the whole suite on a device of at least 4 MiB that reads as zeros. `cases` is the number of
/// random histories.
pub(crate) fn run(device: &Arc<dyn BlockDevice>, path: Path, cases: u32) {
    geometry_is_sound(device);
    unwritten_bytes_are_zeros(device, path);
    follows_the_model(device, path, cases);
    takes_data_from_anywhere(device, path);
    keeps_lanes_apart(device, path);
    keeps_many_requests_in_flight(device, path);
    refuses_what_breaks_the_rules(device, path);
    tells_extents(device, path);
    flushes_are_shared(device, path);
    outlives_a_lane_that_ends_early(device, path);
}

fn geometry_is_sound(device: &Arc<dyn BlockDevice>) {
    let geometry = device.geometry();
    assert!(geometry.len >= 4 << 20, "{geometry:?}");
    assert!([512, 4096].contains(&geometry.granularity), "{geometry:?}");
    assert!(
        geometry.len.is_multiple_of(u64::from(geometry.granularity)),
        "{geometry:?}"
    );
    for size in [geometry.physical, geometry.optimal] {
        assert!(size >= geometry.granularity && size.is_multiple_of(geometry.granularity));
    }
    assert!(geometry.physical.is_power_of_two());
    assert_eq!(device.refresh().expect("a size"), geometry);
    device.usage().expect("a usage");
}

fn unwritten_bytes_are_zeros(device: &Arc<dyn BlockDevice>, path: Path) {
    let mut driver = Driver::new(Arc::clone(device), path);
    let len = device.geometry().len;
    assert_eq!(driver.read(0, 65536), vec![0; 65536]);
    assert_eq!(driver.read(len - 4096, 4096), vec![0; 4096]);
}

#[derive(Clone, Debug)]
enum Step {
    Write {
        offset: u64,
        len: u64,
        byte: u8,
        durable: bool,
    },
    Read {
        offset: u64,
        len: u64,
    },
    Discard {
        offset: u64,
        len: u64,
    },
    Zero {
        offset: u64,
        len: u64,
        unmap: bool,
        durable: bool,
    },
    Flush,
}

fn step(granularity: u64) -> impl Strategy<Value = Step> {
    let blocks = WINDOW / granularity;
    // Lengths are mostly small, to meet parts of pages, and sometimes many pages.
    let len = prop_oneof![4 => 1..20u64, 1 => 1..(128 << 10) / granularity];
    let range = (0..blocks, len)
        .prop_map(move |(start, len)| (start * granularity, len.min(blocks - start) * granularity));
    (range, any::<u8>(), any::<bool>(), any::<bool>(), 0..20u8).prop_map(
        |((offset, len), byte, unmap, durable, choice)| match choice {
            0..8 => Step::Write {
                offset,
                len,
                byte,
                durable: durable && choice == 0,
            },
            8..14 => Step::Read { offset, len },
            14..16 => Step::Discard { offset, len },
            16..19 => Step::Zero {
                offset,
                len,
                unmap,
                durable: durable && choice == 16,
            },
            _ => Step::Flush,
        },
    )
}

/// Compares random histories on the device with a vector.
fn follows_the_model(device: &Arc<dyn BlockDevice>, path: Path, cases: u32) {
    let granularity = u64::from(device.geometry().granularity);
    let steps = prop::collection::vec(step(granularity), 1..60);
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let mut driver = Driver::new(Arc::clone(device), path);
    let driver = std::cell::RefCell::new(&mut driver);
    let outcome = TestRunner::new(config).run(&steps, |steps| {
        let mut driver = driver.borrow_mut();
        driver.discard(0, WINDOW);
        let mut model = vec![0; WINDOW as usize];
        for step in steps {
            apply(&mut driver, &mut model, step);
        }
        assert!(
            driver.read(0, WINDOW as u32) == model,
            "the device and the model differ"
        );
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    driver.borrow_mut().discard(0, WINDOW);
}

fn apply(driver: &mut Driver, model: &mut [u8], step: Step) {
    let range = |offset: u64, len: u64| offset as usize..(offset + len) as usize;
    match step {
        Step::Write {
            offset,
            len,
            byte,
            durable,
        } => {
            // Nearby bytes all differ, so that a shift is seen.
            let bytes: Vec<u8> = (0..len)
                .map(|at| byte.wrapping_add((at % 251) as u8))
                .collect();
            model[range(offset, len)].copy_from_slice(&bytes);
            driver
                .try_write(offset, &bytes, durable)
                .expect("a write succeeds");
        }
        Step::Read { offset, len } => {
            assert!(driver.read(offset, len as u32) == model[range(offset, len)]);
        }
        Step::Discard { offset, len } => {
            model[range(offset, len)].fill(0);
            driver.discard(offset, len);
        }
        Step::Zero {
            offset,
            len,
            unmap,
            durable,
        } => {
            model[range(offset, len)].fill(0);
            let request = Request::WriteZeroes {
                offset,
                len,
                unmap,
                durable,
            };
            driver.run(request).expect("zeroing succeeds");
        }
        Step::Flush => driver.flush().expect("a flush succeeds"),
    }
}

/// Checks that data may lie at any address, aligned to the device's pages or not.
fn takes_data_from_anywhere(device: &Arc<dyn BlockDevice>, path: Path) {
    let mut driver = Driver::new(Arc::clone(device), path);
    let granularity = device.geometry().granularity as usize;
    let bytes: Vec<u8> = (0..40_000).map(|at| (at / 7) as u8).collect();
    for skew in [0, 512, 1000, 4095] {
        for offset in [0, granularity, 4096, 4096 + granularity] {
            let len = 8 * 4096;
            for cut in [0, 1, 100] {
                let data = buffer_slice(&bytes, skew, cut, len);
                let expected = data.to_vec();
                let request = Request::Write {
                    offset: offset as u64,
                    data,
                    durable: false,
                };
                driver.run(request).expect("a write succeeds");
                assert!(
                    driver.read(offset as u64, len as u32) == expected,
                    "{skew} {offset} {cut}"
                );
            }
        }
    }
    driver.discard(0, 65536);
}

fn buffer_slice(bytes: &[u8], skew: usize, cut: usize, len: usize) -> Pages {
    let mut buffer = PagesMut::allocate_at(len + 100, skew);
    buffer.copy_from(0, &bytes[..len + 100]);
    buffer.freeze().slice(cut..cut + len)
}

/// Checks that no lane loses another's data. Lanes on separate threads write neighbouring blocks of
/// the same pages.
fn keeps_lanes_apart(device: &Arc<dyn BlockDevice>, path: Path) {
    const LANES: u64 = 4;
    const ROUNDS: u64 = 40;
    let granularity = u64::from(device.geometry().granularity);
    let base = 2 << 20;
    std::thread::scope(|scope| {
        for number in 0..LANES {
            let device = Arc::clone(device);
            scope.spawn(move || {
                let mut driver = Driver::new(device, path);
                for round in 0..ROUNDS {
                    let block = base + (round % 16 * LANES + number) * granularity;
                    let bytes = vec![(round * LANES + number) as u8 | 1; granularity as usize];
                    driver.write(block, &bytes);
                    assert_eq!(driver.read(block, granularity as u32), bytes);
                }
            });
        }
    });
    let mut driver = Driver::new(Arc::clone(device), path);
    for slot in 0..16 {
        for number in 0..LANES {
            let last = (0..ROUNDS)
                .rev()
                .find(|round| round % 16 == slot)
                .expect("a round");
            let block = base + (slot * LANES + number) * granularity;
            let expected = vec![(last * LANES + number) as u8 | 1; granularity as usize];
            assert_eq!(driver.read(block, granularity as u32), expected);
        }
    }
    driver.discard(base, 1 << 20);
}

/// Checks more requests at once than a queue of the kernel holds.
fn keeps_many_requests_in_flight(device: &Arc<dyn BlockDevice>, path: Path) {
    const REQUESTS: u64 = 700;
    let mut driver = Driver::new(Arc::clone(device), path);
    let content = |number: u64| vec![number as u8 | 1; 4096];
    let tokens: Vec<u64> = (0..REQUESTS)
        .map(|number| {
            let data = Pages::from_bytes(&content(number));
            driver.start(Request::Write {
                offset: number * 4096,
                data,
                durable: false,
            })
        })
        .collect();
    for token in tokens {
        driver.wait(token).expect("a write succeeds");
    }
    let tokens: Vec<u64> = (0..REQUESTS)
        .map(|number| {
            driver.start(Request::Read {
                offset: number * 4096,
                len: 4096,
            })
        })
        .collect();
    for (number, token) in tokens.into_iter().enumerate() {
        match driver.wait(token) {
            Ok(Done::Pages(pages)) => assert!(pages == content(number as u64)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(driver.lane.in_flight(), 0);
    driver.discard(0, REQUESTS * 4096);
}

fn refuses_what_breaks_the_rules(device: &Arc<dyn BlockDevice>, path: Path) {
    let mut driver = Driver::new(Arc::clone(device), path);
    let geometry = device.geometry();
    let (len, block) = (geometry.len, u64::from(geometry.granularity));
    let wrong = [
        (len, block),
        (len - block, 2 * block),
        (1, block),
        (0, block - 1),
        (0, 0),
        (u64::MAX - block + 1, block),
    ];
    for (offset, count) in wrong {
        let data = Pages::zeroes(count as u32);
        for request in [
            Request::Read {
                offset,
                len: count as u32,
            },
            Request::Write {
                offset,
                data,
                durable: false,
            },
            Request::Discard { offset, len: count },
            Request::WriteZeroes {
                offset,
                len: count,
                unmap: true,
                durable: true,
            },
            Request::Extents { offset, len: count },
        ] {
            let error = driver.run(request).expect_err("breaks a rule");
            let fits = (offset.checked_add(count)).is_some_and(|end| end <= device.geometry().len);
            let expected = if fits {
                BlockErrorKind::Invalid
            } else {
                BlockErrorKind::OutOfRange
            };
            assert_eq!(error.kind(), expected, "{offset}+{count}: {error}");
        }
    }
}

fn tells_extents(device: &Arc<dyn BlockDevice>, path: Path) {
    let mut driver = Driver::new(Arc::clone(device), path);
    driver.discard(0, WINDOW);
    driver.write(65536, &[9; 65536]);
    driver.flush().expect("a flush succeeds");
    let mut at = 0;
    let mut runs = Vec::new();
    while at < WINDOW {
        let prefix = driver.extents(at, WINDOW - at);
        assert!(
            !prefix.is_empty() && prefix.iter().all(|run| run.0 > 0),
            "{prefix:?}"
        );
        at += prefix.iter().map(|run| run.0).sum::<u64>();
        runs.extend(prefix);
    }
    assert_eq!(at, WINDOW, "{runs:?}");
    let mut at = 0;
    for (len, data) in runs {
        let written = at < 131_072 && at + len > 65536;
        assert!(data || !written, "data at {at}+{len} is told as a hole");
        if !data {
            assert_eq!(driver.read(at, len as u32), vec![0; len as usize]);
        }
        at += len;
    }
    driver.discard(0, WINDOW);
}

/// Checks that each of many flushes from several lanes is answered.
fn flushes_are_shared(device: &Arc<dyn BlockDevice>, path: Path) {
    std::thread::scope(|scope| {
        for number in 0..4u64 {
            let device = Arc::clone(device);
            scope.spawn(move || {
                let mut driver = Driver::new(device, path);
                for _ in 0..5 {
                    driver.write(number * 4096, &[1; 4096]);
                    let tokens = [(); 3].map(|()| driver.start(Request::Flush));
                    for token in tokens {
                        driver.wait(token).expect("a flush succeeds");
                    }
                }
            });
        }
    });
    Driver::new(Arc::clone(device), path).discard(0, 65536);
}

/// Checks a lane that is dropped with requests in flight. Their memory stays valid, and other lanes
/// continue.
fn outlives_a_lane_that_ends_early(device: &Arc<dyn BlockDevice>, path: Path) {
    let mut other = Driver::new(Arc::clone(device), path);
    for submitted in [false, true] {
        let mut driver = Driver::new(Arc::clone(device), path);
        for number in 0..50u64 {
            let data = Pages::from_bytes(&[number as u8; 4096]);
            driver.start(Request::Write {
                offset: number * 4096,
                data,
                durable: number == 7,
            });
            driver.start(Request::Read {
                offset: number * 4096,
                len: 4096,
            });
        }
        driver.start(Request::Flush);
        if submitted {
            driver.lane.submit_batch();
        }
        drop(driver);
        other.flush().expect("a flush succeeds");
        other.discard(0, 50 * 4096);
        assert_eq!(
            other.read(0, 50 * 4096),
            vec![0; 50 * 4096],
            "a write arrived late"
        );
    }
}
