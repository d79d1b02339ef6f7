//! Every request of a block device, through SCSI and back.

use block::{BlockDevice as _, BlockErrorKind, Done, Request};
use model::config::BackendSpec;

use super::driver::Driver;
use crate::served::{self, Served, TARGET};

const SIZE: u64 = 64 << 20;

fn serve() -> Served {
    Served::start(vec![served::unit(
        "vol",
        1,
        BackendSpec::Memory { size: SIZE },
    )])
}

fn bytes(seed: u8, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| {
            (at as u8)
                .wrapping_mul(31)
                .wrapping_add(seed)
                .wrapping_add((at >> 8) as u8)
        })
        .collect()
}

fn url(served: &Served, rest: &str) -> String {
    format!("iscsi://{}/{TARGET}/0{rest}", served.portal)
}

#[test]
fn what_was_written_is_read() {
    let served = serve();
    let mut driver = Driver::open(&url(&served, "")).unwrap();
    let geometry = driver.device.geometry();
    assert_eq!((geometry.len, geometry.granularity), (SIZE, 512));
    assert!(geometry.thin && geometry.discard > 0);
    // One block, a page, and more than one command moves.
    for (offset, len) in [(512, 512), (8192, 4096), (1 << 20, 20 << 20)] {
        let data = bytes(7, len);
        driver.write(offset, &data, true).unwrap();
        assert!(driver.read(offset, len as u32) == data);
    }
    assert!(matches!(driver.run(Request::Flush), Ok(Done::Nothing)));
}

#[test]
fn freed_blocks_read_as_zeros_and_are_told() {
    let served = serve();
    let mut driver = Driver::open(&url(&served, "")).unwrap();
    driver.write(0, &bytes(1, 1 << 20), false).unwrap();
    let (offset, len) = (256 << 10, 256 << 10);
    assert!(matches!(
        driver.run(Request::Discard { offset, len }),
        Ok(Done::Nothing)
    ));
    assert!(
        driver
            .read(offset, len as u32)
            .iter()
            .all(|byte| *byte == 0)
    );
    let zeros = Request::WriteZeroes {
        offset: 512,
        len: 512,
        unmap: false,
        durable: true,
    };
    assert!(matches!(driver.run(zeros), Ok(Done::Nothing)));
    assert!(driver.read(512, 512).iter().all(|byte| *byte == 0));
    let Ok(Done::Extents(runs)) = driver.run(Request::Extents {
        offset: 0,
        len: 1 << 20,
    }) else {
        panic!("no extents");
    };
    assert_eq!(
        runs,
        [(256 << 10, true), (256 << 10, false), (512 << 10, true)]
    );
}

#[test]
fn many_requests_are_under_way_at_once() {
    let served = serve();
    let mut driver = Driver::open(&url(&served, "?sessions=3")).unwrap();
    let count = 2000;
    for token in 0..count {
        let data = block::Pages::from_bytes(&[token as u8; 4096]);
        driver.submit(
            token,
            Request::Write {
                offset: token * 4096,
                data,
                durable: false,
            },
        );
    }
    let mut ended = 0;
    while ended < count {
        for (token, outcome) in driver.take() {
            outcome.unwrap_or_else(|error| panic!("{token}: {error}"));
            ended += 1;
        }
    }
    for token in 0..count {
        assert!(
            driver
                .read(token * 4096, 4096)
                .iter()
                .all(|byte| *byte == token as u8)
        );
    }
}

#[test]
fn digests_protect_both_ways() {
    let served = serve();
    let options = "?header_digest=crc32c&data_digest=crc32c";
    let mut driver = Driver::open(&url(&served, options)).unwrap();
    let data = bytes(9, 3 << 20);
    driver.write(4096, &data, false).unwrap();
    assert!(driver.read(4096, 3 << 20) == data);
}

#[test]
fn a_request_beyond_the_end_is_refused_before_it_is_sent() {
    let served = serve();
    let mut driver = Driver::open(&url(&served, "")).unwrap();
    let error = driver
        .write(SIZE - 512, &[0; 1024], false)
        .expect_err("beyond");
    assert_eq!(error.kind(), BlockErrorKind::OutOfRange);
}

#[test]
fn what_cannot_be_opened_is_explained() {
    let served = serve();
    let error = |url: &str| Driver::open(url).err().expect(url).to_string();
    let no_lun = format!("iscsi://{}/{TARGET}/9", served.portal);
    let said = error(&no_lun);
    assert!(said.contains("shows no disk as LUN 9"), "{said}");
    let no_target = format!("iscsi://{}/iqn.2026-01.io.sandstone:other/0", served.portal);
    let said = error(&no_target);
    assert!(said.contains("the target refused the login"), "{said}");
    let closed = served::free_portal();
    let said = error(&format!("iscsi://{closed}/{TARGET}/0"));
    assert!(
        said.contains("cannot connect: Connection refused"),
        "{said}"
    );
}

#[test]
fn requests_of_another_thread_come_back_to_it() {
    use block::{BlockDevice, Lane, Ticket};
    let served = serve();
    let mut driver = Driver::open(&url(&served, "")).unwrap();
    let device = std::sync::Arc::new(driver.adapter.device(0, Some(0)).unwrap());
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let waker = driver.lane.waker();
    let thread = std::thread::spawn({
        let over = std::sync::Arc::clone(&over);
        move || {
            let mut lane = Lane::standing().unwrap();
            for round in 0..200u64 {
                let data = block::Pages::from_bytes(&[round as u8; 512]);
                let offset = round * 512;
                device.submit(
                    Request::Write {
                        offset,
                        data,
                        durable: false,
                    },
                    Ticket::new(round),
                    &mut lane,
                );
                lane.submit_batch();
                let mut taken = Vec::new();
                while taken.is_empty() {
                    lane.wait(None).unwrap();
                    lane.take_completions(&mut taken);
                }
                assert_eq!(taken[0].0, round);
                taken.remove(0).1.unwrap();
            }
            over.store(true, std::sync::atomic::Ordering::Release);
            waker();
        }
    });
    let mut nothing = Vec::new();
    while !over.load(std::sync::atomic::Ordering::Acquire) {
        driver.lane.wait(None).unwrap();
        driver.lane.take_completions(&mut nothing);
        driver.lane.submit_batch();
    }
    thread.join().unwrap();
    assert!(nothing.is_empty());
    assert!(driver.read(199 * 512, 512).iter().all(|byte| *byte == 199));
}
