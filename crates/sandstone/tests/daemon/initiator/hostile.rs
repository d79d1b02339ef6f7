//! Targets that break the protocol, or have none to offer.
//!
//! Each ends in a clear error or in a new session, in bounded time and memory, and never in data at
//! the wrong place.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use block::lane::Outcome;
use block::{BlockErrorKind, Request};
use iscsi::chap::ChapCredential;
use iscsi::pdu::{AsyncEvent, AsyncMessage, BHS_LENGTH, Reject, RejectReason};
use iscsi::target::login::{Authentication, Authorization};

use super::driver::{self, Driver};
use super::fake_target::{Command, FakeTarget, NAME, Peer, World, allowed};

pub(crate) const SIZE: usize = 1 << 20;

pub(crate) fn world() -> World {
    World::of(&[SIZE])
}

/// Returns the CPU time of this thread, which runs the sessions.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Returns the peak memory of this process, in bytes.
pub(crate) fn peak_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        << 10
}

fn error_of(outcome: Outcome) -> String {
    match outcome {
        Err(error) => error.to_string(),
        Ok(done) => panic!("{done:?}"),
    }
}

/// Starts a target whose first life answers its first READ or WRITE with this; later lives behave.
fn first_life(
    misbehave: impl Fn(&mut Peer, &Command) -> io::Result<()> + Send + Sync + 'static,
) -> impl Fn(&mut Peer, &Command) -> io::Result<bool> + Send + Sync + 'static {
    let done = AtomicBool::new(false);
    move |peer, command| {
        if peer.life > 0 || !command.is_io() || done.swap(true, Ordering::Relaxed) {
            return Ok(false);
        }
        misbehave(peer, command)?;
        Ok(true)
    }
}

/// Checks that a read meets this misbehaviour, and succeeds in the next session.
fn read_survives(
    misbehave: impl Fn(&mut Peer, &Command) -> io::Result<()> + Send + Sync + 'static,
) {
    let fake = FakeTarget::start(world(), first_life(misbehave));
    let mut driver = Driver::open(&fake.url("")).unwrap();
    assert!(driver.read(8192, 8192).iter().all(|byte| *byte == 1));
    assert_eq!(fake.lives(), 2);
}

#[test]
fn data_in_beyond_the_command() {
    read_survives(|peer, command| {
        let mut header = peer.data_in(command, 4096);
        header.buffer_offset = 8192;
        peer.send_data(&header, &[9; 4096])
    });
}

#[test]
fn data_in_for_nobody() {
    read_survives(|peer, command| {
        let mut header = peer.data_in(command, 4096);
        header.itt = 0x1234;
        peer.send_data(&header, &[9; 4096])
    });
}

#[test]
fn data_in_out_of_order() {
    read_survives(|peer, command| {
        let mut header = peer.data_in(command, 4096);
        header.data_sn = 7;
        peer.send_data(&header, &[9; 4096])
    });
}

#[test]
fn a_status_out_of_order() {
    read_survives(|peer, command| {
        let mut header = peer.data_in(command, 8192);
        header.stat_sn = header.stat_sn.wrapping_add(3);
        peer.send_data(&header, &[9; 8192])
    });
}

#[test]
fn a_status_twice() {
    let fake = FakeTarget::start(
        world(),
        first_life(|peer, command| {
            peer.perform(command)?;
            let again = peer.response(command.header.itt, 0, &[]);
            peer.send(&again)
        }),
    );
    let mut driver = Driver::open(&fake.url("")).unwrap();
    // The first status is valid, the second ends the session.
    for _ in 0..2 {
        assert!(driver.read(8192, 8192).iter().all(|byte| *byte == 1));
        driver.idle(Duration::from_millis(20));
    }
    assert_eq!(fake.lives(), 2);
}

#[test]
fn an_answer_to_nothing() {
    read_survives(|peer, _| {
        let response = peer.response(0x77, 0, &[]);
        peer.send(&response)
    });
    read_survives(|peer, _| peer.pong(0xffff_0000));
}

#[test]
fn an_unknown_opcode_and_noise() {
    read_survives(|peer, _| peer.send(&[0x3f; BHS_LENGTH]));
    read_survives(|peer, _| peer.send(&[0xff; 70_000]));
    read_survives(|peer, _| peer.send(&[0; 4096]));
}

#[test]
fn sense_longer_than_any_data_segment() {
    read_survives(|peer, command| {
        let mut pdu = peer.response(command.header.itt, 2, &[0x70; 20]);
        pdu[5..8].copy_from_slice(&[0xff, 0xff, 0xff]);
        peer.send(&pdu)?;
        let _ = peer.send(&vec![0x70; 1 << 20]);
        Ok(())
    });
}

#[test]
fn sense_that_announces_more_than_there_is_fails_one_attempt() {
    let fake = FakeTarget::start(
        world(),
        first_life(|peer, command| {
            let mut pdu = peer.response(command.header.itt, 2, &[0x70, 0, 6, 0]);
            pdu[BHS_LENGTH..BHS_LENGTH + 2].copy_from_slice(&[0xff, 0xff]);
            peer.send(&pdu)
        }),
    );
    let mut driver = Driver::open(&fake.url("")).unwrap();
    assert!(driver.read(0, 4096).iter().all(|byte| *byte == 1));
    assert_eq!(fake.lives(), 1);
}

#[test]
fn r2t_for_a_read() {
    read_survives(|peer, command| {
        let r2t = peer.r2t(&command.header, 0, 0, 4096);
        peer.send(&r2t)
    });
}

#[test]
fn a_rejected_command_is_repeated() {
    let fake = FakeTarget::start(
        world(),
        first_life(|peer, command| {
            let reject = Reject {
                reason: RejectReason::ProtocolError,
                data_segment_length: BHS_LENGTH as u32,
                stat_sn: peer.next_stat_sn(),
                exp_cmd_sn: peer.exp_cmd_sn,
                max_cmd_sn: peer.max_cmd_sn(),
                data_sn: 0,
            };
            let mut pdu = [0; 2 * BHS_LENGTH];
            reject.encode(pdu.first_chunk_mut().unwrap());
            command.header.encode(pdu.last_chunk_mut().unwrap());
            peer.send(&pdu)
        }),
    );
    let mut driver = Driver::open(&fake.url("")).unwrap();
    assert!(driver.read(0, 4096).iter().all(|byte| *byte == 1));
    assert_eq!(fake.lives(), 1);
}

/// Answers a write's command with the R2Ts of `r2ts`, and checks that the write succeeds in the
/// next session.
fn write_survives(r2ts: impl Fn(&Peer, &Command) -> Vec<u8> + Send + Sync + 'static) {
    let fake = FakeTarget::start(
        world(),
        first_life(move |peer, command| {
            let bytes = r2ts(peer, command);
            // The connection may be cut while the peer sends.
            let _ = peer.send(&bytes);
            Ok(())
        }),
    );
    let url = fake.url("?immediate_data=no&initial_r2t=yes");
    let mut driver = Driver::open(&url).unwrap();
    driver.write(4096, &[5; 256 << 10], false).unwrap();
    assert!(
        fake.world().disks[0].data[4096..][..256 << 10]
            .iter()
            .all(|byte| *byte == 5)
    );
    assert_eq!(fake.lives(), 2);
}

#[test]
fn r2t_beyond_the_command_or_for_nothing() {
    write_survives(|peer, command| peer.r2t(&command.header, 0, 128 << 10, 192 << 10).to_vec());
    write_survives(|peer, command| peer.r2t(&command.header, 0, 0, 0).to_vec());
    write_survives(|peer, command| peer.r2t(&command.header, 3, 0, 4096).to_vec());
}

#[test]
fn a_storm_of_r2ts_for_the_same_data() {
    let before = peak_memory();
    write_survives(|peer, command| {
        let storm = (0..20_000).map(|n| peer.r2t(&command.header, n, 0, 256 << 10));
        storm.collect::<Vec<_>>().concat()
    });
    let grown = peak_memory() - before;
    assert!(grown < 256 << 20, "{} MiB", grown >> 20);
}

#[test]
fn a_storm_of_pings_whose_answers_nobody_reads() {
    let before = peak_memory();
    read_survives(|peer, _| {
        let pings = peer.ping().repeat(10_000);
        // 300 MB, if the initiator accepts that.
        for _ in 0..600 {
            if peer.send(&pings).is_err() {
                return Ok(());
            }
        }
        // The target goes on reading nothing, and does not end the connection either.
        std::thread::sleep(Duration::from_secs(3));
        Ok(())
    });
    let grown = peak_memory() - before;
    assert!(grown < 128 << 20, "{} MiB", grown >> 20);
}

#[test]
fn fewer_bytes_than_good_says() {
    let fake = FakeTarget::start(world(), |peer, command| {
        match command.opcode() {
            // Half of it, and not a word about the other half.
            0x88 => {
                let header = peer.data_in(command, 4096);
                peer.send_data(&header, &[7; 4096])?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    });
    let mut driver = Driver::open(&fake.url("")).unwrap();
    let (offset, len) = (0, 8192);
    let said = error_of(driver.run(Request::Read { offset, len }));
    assert!(said.contains("fewer bytes"), "{said}");
}

#[test]
fn bytes_of_a_lost_session_do_not_complete_a_later_answer() {
    // The first life sends all but the status and goes. The second one sends the first half and
    // calls that GOOD.
    let fake = FakeTarget::start(world(), |peer, command| {
        if command.opcode() != 0x88 {
            return Ok(false);
        }
        if peer.life == 0 {
            let mut header = peer.data_in(command, 8192);
            (header.status_present, header.stat_sn) = (false, 0);
            peer.send_data(&header, &[3; 8192])?;
            peer.close();
        } else {
            let header = peer.data_in(command, 4096);
            peer.send_data(&header, &[3; 4096])?;
        }
        Ok(true)
    });
    let mut driver = Driver::open(&fake.url("")).unwrap();
    let (offset, len) = (0, 8192);
    let said = error_of(driver.run(Request::Read { offset, len }));
    assert!(said.contains("fewer bytes"), "{said}");
}

#[test]
fn endless_busy_is_asked_ever_more_slowly_and_ends_in_an_error() {
    for status in [0x08, 0x28] {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let fake = FakeTarget::start(world(), move |peer, command| {
            if !command.is_io() {
                return Ok(false);
            }
            count.fetch_add(1, Ordering::Relaxed);
            peer.status(command, status)
        });
        let mut devices = driver::round_robin();
        devices.base.command_time_limit_us = 1_500_000;
        let mut driver = Driver::open_with(driver::target(&fake.url("")), devices).unwrap();
        let (begun, used) = (Instant::now(), cpu());
        let (offset, len) = (0, 512);
        let said = error_of(driver.run(Request::Read { offset, len }));
        assert!(said.contains("busy for too long"), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert!(cpu() - used < Duration::from_millis(300));
        assert!(asked.load(Ordering::Relaxed) < 50);
    }
}

#[test]
fn a_reservation_conflict_is_told_at_once() {
    let fake = FakeTarget::start(world(), |peer, command| match command.is_io() {
        true => peer.status(command, 0x18),
        false => Ok(false),
    });
    let mut driver = Driver::open(&fake.url("")).unwrap();
    let said = error_of(driver.run(Request::Read {
        offset: 0,
        len: 512,
    }));
    assert!(said.contains("reservation"), "{said}");
}

fn async_message(peer: &mut Peer, event: AsyncEvent) -> io::Result<()> {
    let message = AsyncMessage {
        data_segment_length: 0,
        lun: 0,
        stat_sn: peer.next_stat_sn(),
        exp_cmd_sn: peer.exp_cmd_sn,
        max_cmd_sn: peer.max_cmd_sn(),
        async_event: event,
        async_vcode: 0,
        parameter1: 0,
        parameter2: 0,
        parameter3: 0,
    };
    let mut bhs = [0; BHS_LENGTH];
    message.encode(&mut bhs);
    peer.send(&bhs)
}

#[test]
fn a_target_that_wants_us_to_go_gets_us_back() {
    for event in [AsyncEvent::DropConnection, AsyncEvent::DropAllConnections] {
        read_survives(move |peer, _| async_message(peer, event));
    }
}

/// RFC 7143 §11.9.1: the initiator shall log out.
#[test]
fn a_target_that_asks_for_a_logout_gets_one_and_gets_us_back() {
    let ask = |peer: &mut Peer, _: &Command| async_message(peer, AsyncEvent::RequestLogout);
    let fake = FakeTarget::start(world(), first_life(ask));
    let mut driver = Driver::open(&fake.url("")).unwrap();
    assert!(driver.read(8192, 8192).iter().all(|byte| *byte == 1));
    assert_eq!((fake.logouts(), fake.lives()), (1, 2));
}

/// Checks that reconnecting gets slower and costs little, whatever ends each session at once.
fn backs_off(
    script: impl Fn(&mut Peer, &Command) -> io::Result<bool> + Send + Sync + 'static,
    what: &str,
) {
    let fake = FakeTarget::start(world(), script);
    let mut driver = Driver::open(&fake.url("")).unwrap();
    driver.submit(
        1,
        Request::Read {
            offset: 0,
            len: 512,
        },
    );
    let used = cpu();
    driver.idle(Duration::from_secs(3));
    let (used, lives) = (cpu() - used, fake.lives());
    assert!((2..20).contains(&lives), "{what}: {lives} sessions in 3 s");
    assert!(used < Duration::from_millis(300), "{what}: {used:?} of CPU");
}

#[test]
fn sessions_that_always_end_at_once_are_made_ever_more_slowly() {
    backs_off(
        |peer, command| {
            if command.is_io() {
                peer.close();
            }
            Ok(command.is_io())
        },
        "closed at each I/O",
    );
    backs_off(
        |peer, command| {
            if command.is_io() {
                async_message(peer, AsyncEvent::RequestLogout)?;
            }
            Ok(command.is_io())
        },
        "asked to log out at each I/O",
    );
    backs_off(
        |peer, command| {
            let is_over = peer.life > 0 || command.is_io();
            if is_over {
                peer.close();
            }
            Ok(is_over)
        },
        "closed at once from the second session on",
    );
}

#[test]
fn a_redirection_is_followed_when_a_device_is_opened() {
    for permanent in [false, true] {
        let real = FakeTarget::honest(world());
        let door = FakeTarget::honest(World::of(&[]));
        door.authorize(Authorization::Redirect {
            address: format!("{},1", real.address),
            permanent,
        });
        let mut driver = Driver::open(&door.url("")).unwrap();
        assert_eq!(driver.read(0, 512)[0], 1);
    }
}

#[test]
fn a_redirection_to_a_name_is_followed() {
    for permanent in [false, true] {
        let real = FakeTarget::honest(world());
        let door = FakeTarget::honest(World::of(&[]));
        door.authorize(Authorization::Redirect {
            address: format!("localhost:{}", real.address.port()),
            permanent,
        });
        let mut driver = Driver::open(&door.url("")).unwrap();
        assert_eq!(driver.read(0, 512)[0], 1);
        let (_, sessions) = driver.device.view();
        let moved = sessions[0].redirected_to.clone();
        assert_eq!(moved, permanent.then(|| real.address.to_string()));
    }
}

#[test]
fn redirections_that_lead_nowhere_end_in_an_error() {
    let fake = FakeTarget::honest(world());
    let here = fake.address.to_string();
    let nobody = crate::served::free_portal().to_string();
    // No name server is asked for a label of this length.
    let no_name = "x".repeat(70);
    for (address, what) in [
        (here.as_str(), "the target is at"),
        (nobody.as_str(), "cannot connect"),
        (no_name.as_str(), "which cannot be looked up"),
        ("", "the target is at"),
        ("...:::", "the target is at"),
        ("1.2.3.4.5:99999", "the target is at"),
    ] {
        fake.authorize(Authorization::Redirect {
            address: address.to_owned(),
            permanent: false,
        });
        let before = fake.connections();
        let begun = Instant::now();
        let error = Driver::open(&fake.url(""))
            .err()
            .expect(address)
            .to_string();
        assert!(error.contains(what), "{address}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{address}");
        assert!(fake.connections() - before <= 16, "{address}");
    }
}

#[test]
fn wrong_secrets_of_either_side_are_explained() {
    let fake = FakeTarget::honest(world());
    let credential = |name: &str, secret: &str| ChapCredential {
        name: name.into(),
        secret: secret.into(),
    };
    fake.authorize(allowed(Authentication::Chap {
        initiator: credential("me", "mine-mine-mine"),
        target: Some(credential("it", "its-its-its-its")),
    }));
    let url = |user: &str, rest: &str| format!("iscsi://{user}{}/{NAME}/0{rest}", fake.address);
    for (url, what) in [
        (url("", ""), "refused the login"),
        (url("me%wrong-wrong-wrong@", ""), "refused the login"),
        (url("you%mine-mine-mine@", ""), "refused the login"),
        (
            url(
                "me%mine-mine-mine@",
                "?target_user=it&target_password=wrong-wrong",
            ),
            "the secrets differ",
        ),
        (
            url(
                "me%mine-mine-mine@",
                "?target_user=who&target_password=its-its-its-its",
            ),
            "unknown CHAP name",
        ),
    ] {
        let begun = Instant::now();
        let error = Driver::open(&url).err().expect(&url).to_string();
        assert!(error.contains(what), "{url}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(3));
    }
    let right = url(
        "me%mine-mine-mine@",
        "?target_user=it&target_password=its-its-its-its",
    );
    assert_eq!(Driver::open(&right).unwrap().read(0, 512)[0], 1);
    // The target proves nothing although it should.
    fake.authorize(allowed(Authentication::None));
    let error = Driver::open(&right).err().expect("unproved").to_string();
    assert!(error.contains("authentication fail"), "{error}");
}

#[test]
fn bytes_may_come_one_by_one() {
    let fake = FakeTarget::honest(world());
    fake.dribble(1);
    let mut driver = Driver::open(&fake.url("")).unwrap();
    let data: Vec<u8> = (0..16 << 10).map(|at| (at % 251) as u8).collect();
    driver.write(8192, &data, true).unwrap();
    assert!(driver.read(8192, 16 << 10) == data);
    assert_eq!(fake.lives(), 1);
}

#[test]
fn a_connection_that_ends_at_any_byte_of_login_or_scan_is_explained() {
    let fake = FakeTarget::honest(world());
    // A target that closes without a word may be an old one that dislikes an offer: another attempt
    // follows.
    fake.cut_after(0);
    assert!(Driver::open(&fake.url("")).is_ok());
    fake.cut_after(0);
    fake.cut_after(0);
    let error = Driver::open(&fake.url("")).err().expect("closed twice");
    let words = "closed the connection; another attempt";
    assert!(error.to_string().contains(words), "{error}");
    for cut in (1..).step_by(3) {
        fake.cut_after(cut);
        let begun = Instant::now();
        let opened = Driver::open(&fake.url(""));
        assert!(begun.elapsed() < Duration::from_secs(20), "{cut}");
        match opened {
            // The cut is after the last byte of the scan.
            Ok(_) => return assert!(cut > 600, "{cut}"),
            Err(error) => {
                let said = error.to_string();
                assert!(
                    said.contains("the target closed the connection"),
                    "{cut}: {said}"
                );
            }
        }
    }
}

#[test]
fn a_connection_that_ends_at_any_byte_of_an_answer_is_made_again() {
    let cut = Arc::new(AtomicUsize::new(usize::MAX));
    let position = Arc::clone(&cut);
    let fake = FakeTarget::start(world(), move |peer, command| {
        if command.is_io() {
            peer.budget = position.swap(usize::MAX, Ordering::Relaxed);
        }
        Ok(false)
    });
    let mut settings = driver::target(&fake.url(""));
    settings.session.back_off.first = Duration::from_millis(1);
    settings.session.back_off.most = Duration::from_millis(1);
    let devices = driver::round_robin_without_settling();
    let mut driver = Driver::open_with(settings, devices).unwrap();
    for at in (0..60).chain((60..4096 + 48).step_by(97)) {
        cut.store(at, Ordering::Relaxed);
        let begun = Instant::now();
        assert_eq!(driver.read(4096, 4096), [1; 4096], "{at}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{at}");
        cut.store(at.min(47), Ordering::Relaxed);
        driver.write(0, &[at as u8; 4096], false).unwrap();
        assert_eq!(fake.world().disks[0].data[4095], at as u8);
    }
}

#[test]
fn a_close_right_behind_an_answer_is_noticed_at_once() {
    // Answer and end arrive together: an edge-triggered poller reports them once.
    let fake = FakeTarget::start(world(), |peer, command| {
        if !command.is_io() {
            return Ok(false);
        }
        peer.perform(command)?;
        peer.close();
        Ok(true)
    });
    let mut settings = driver::target(&fake.url(""));
    settings.session.back_off.first = Duration::from_millis(1);
    settings.session.back_off.most = Duration::from_millis(1);
    let mut driver = Driver::open_with(settings, driver::round_robin()).unwrap();
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(driver.read(0, 512)[0], 1);
        // The end arrives while nobody asks for anything.
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_write_that_moved_too_little_fails() {
    let fake = FakeTarget::start(world(), |peer, command| {
        if command.opcode() != 0x8a {
            return Ok(false);
        }
        let mut pdu = peer.response(command.header.itt, 0, &[]);
        pdu[1] |= 0x02;
        pdu[44..48].copy_from_slice(&512u32.to_be_bytes());
        peer.send(&pdu)?;
        Ok(true)
    });
    let mut driver = Driver::open(&fake.url("")).unwrap();
    let error = driver.write(0, &[1; 4096], false).expect_err("short");
    assert_eq!(error.kind(), BlockErrorKind::Write);
    assert!(error.to_string().contains("fewer bytes"), "{error}");
}

#[test]
fn a_window_that_never_opens_costs_the_session_not_the_io() {
    const LAST: u32 = 12;
    let fake = FakeTarget::start(world(), |peer, _| {
        if peer.life == 0 {
            // MaxCmdSN stays the same for ever, whatever comes.
            peer.window = match peer.window {
                63 => LAST - 2,
                window => window.wrapping_sub(1),
            };
        }
        Ok(false)
    });
    let mut terms = allowed(Authentication::None);
    if let Authorization::Allowed(terms) = &mut terms {
        terms.command_window = LAST;
    }
    fake.authorize(terms);
    let mut driver = Driver::open(&fake.url("?command_timeout=1")).unwrap();
    for offset in (0..16).map(|at| at * 4096) {
        assert_eq!(driver.read(offset, 4096), [1; 4096]);
    }
    assert_eq!(fake.lives(), 2);
}
