//! Tests of our initiator against our target, over a link that cuts the bytes anywhere: login with
//! and without CHAP, digests, bursts, R2T, immediate data, the command window, pings, aborts,
//! discovery, logout.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::login_harness::{Counter, Policy, TARGET, credential, terms};
use iscsi::chap::ChapAlgorithm;
use iscsi::initiator::{
    self, Command, CommandEnd, Direction, LoggedIn, LoginError, LoginProgress, LoginSettings,
    Residual, SessionEvent, SessionUser,
};
use iscsi::negotiation::{DigestPolicy, Limits};
use iscsi::payload::DataOutBuffer;
use iscsi::pdu::{
    BHS_LENGTH, Bhs, Isid, LoginStatus, LogoutResult, TaskAttribute, TaskManagementFunction,
    TaskManagementResult,
};
use iscsi::send_targets;
use iscsi::target::discovery::{
    DiscoveredPortal, DiscoveredTarget, TargetDirectory, TextContext, TextExchange,
};
use iscsi::target::login::{
    Authorization, Login, LoginOutcome, LoginResult, LoginTerms, SessionKind,
};
use iscsi::target::{
    Admission, Completion, ConnectionSettings, Event, IncomingCommand, Session, SessionSettings,
    TaskId, TaskRouter,
};
use proptest::prelude::*;

const BLOCK: usize = 512;
const BLOCKS: usize = 4096;

/// Buffer for a write, and its destination.
struct WriteBuffer {
    at: usize,
    bytes: Vec<u8>,
}

impl DataOutBuffer for WriteBuffer {
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes.put(offset, bytes);
    }

    fn room(&mut self, offset: usize, len: usize) -> impl Iterator<Item = &mut [u8]> {
        self.bytes.room(offset, len)
    }

    fn mark_filled(&mut self, offset: usize, len: usize) {
        self.bytes.mark_filled(offset, len);
    }
}

/// Device server over memory. It knows READ(10), WRITE(10) and TEST UNIT READY, and answers every
/// third command late.
struct Disk {
    bytes: Vec<u8>,
    late: Vec<(TaskId, Completion<Arc<[u8]>>)>,
    commands: usize,
    hold: bool,
}

impl Disk {
    fn new() -> Self {
        Self {
            bytes: vec![0; BLOCK * BLOCKS],
            late: Vec::new(),
            commands: 0,
            hold: false,
        }
    }

    fn end(
        &mut self,
        task: TaskId,
        status: u8,
        data_in: Option<Arc<[u8]>>,
    ) -> Admission<Arc<[u8]>, WriteBuffer> {
        let sense = if status == 2 {
            vec![0x70, 0, 5]
        } else {
            Vec::new()
        };
        let completion = Completion {
            status,
            sense,
            data_in,
            data_out_wanted: None,
            receipt: None,
        };
        self.commands += 1;
        if self.hold || self.commands.is_multiple_of(3) {
            self.late.push((task, completion));
            return Admission::Running;
        }
        Admission::Done(completion)
    }
}

impl TaskRouter for Disk {
    type Payload = Arc<[u8]>;
    type Buffer = WriteBuffer;

    fn command(
        &mut self,
        task: TaskId,
        command: &IncomingCommand<'_>,
    ) -> Admission<Arc<[u8]>, WriteBuffer> {
        let at = u32::from_be_bytes(command.cdb[2..6].try_into().unwrap()) as usize * BLOCK;
        let length = usize::from(u16::from_be_bytes([command.cdb[7], command.cdb[8]])) * BLOCK;
        match command.cdb[0] {
            0x28 => {
                let data: Arc<[u8]> = self.bytes[at..at + length].into();
                self.end(task, 0, Some(data))
            }
            0x2a => Admission::Collect {
                buffer: WriteBuffer {
                    at,
                    bytes: Vec::new(),
                },
                wanted: length as u32,
            },
            0x00 => self.end(task, 0, None),
            _ => self.end(task, 2, None),
        }
    }

    fn data_out(
        &mut self,
        task: TaskId,
        buffer: WriteBuffer,
        length: u32,
    ) -> Admission<Arc<[u8]>, WriteBuffer> {
        let length = length as usize;
        self.bytes[buffer.at..buffer.at + length].copy_from_slice(&buffer.bytes[..length]);
        self.end(task, 0, None)
    }
}

/// Owner of the commands.
#[derive(Default)]
struct User {
    writes: HashMap<u64, Vec<u8>>,
    reads: HashMap<u64, Vec<u8>>,
    ended: HashMap<u64, (u8, Vec<u8>, Residual)>,
    events: Vec<SessionEvent>,
    sent_late: Vec<u64>,
}

impl SessionUser for User {
    fn data_out(&mut self, cookie: u64, offset: u32, length: u32, out: &mut Vec<u8>) {
        let (offset, length) = (offset as usize, length as usize);
        if let Some(data) = self.writes.get(&cookie) {
            out.extend_from_slice(&data[offset..offset + length]);
        }
    }

    fn data_in(&mut self, cookie: u64, offset: u32, bytes: &[u8]) {
        self.reads
            .entry(cookie)
            .or_default()
            .put(offset as usize, bytes);
    }

    fn sent_late(&mut self, cookie: u64) {
        self.sent_late.push(cookie);
    }

    fn ended(&mut self, cookie: u64, end: CommandEnd<'_>) {
        let CommandEnd::Status {
            status,
            sense,
            residual,
        } = end
        else {
            panic!("{end:?}")
        };
        let twice = self
            .ended
            .insert(cookie, (status, sense.to_vec(), residual));
        assert!(twice.is_none(), "a command ends once");
    }

    fn event(&mut self, event: SessionEvent) {
        self.events.push(event);
    }
}

/// Runs both sides of a login, with each PDU in one piece.
fn login(
    settings: LoginSettings,
    policy: &mut Policy,
) -> Result<(LoggedIn, LoginResult), LoginError> {
    let mut entropy = Counter(3);
    let (mut ours, mut request) = initiator::Login::start(settings);
    let mut theirs = Login::new();
    let mut result = None;
    loop {
        let bhs = request.first_chunk::<BHS_LENGTH>().unwrap();
        let data = &request[BHS_LENGTH..][..Bhs::new(bhs).data_segment_length()];
        let reply = theirs.receive(bhs, data, policy, &mut entropy);
        if let LoginOutcome::Connected(connected) = reply.outcome {
            result = Some(*connected);
        }
        let bhs = reply.pdu.first_chunk::<BHS_LENGTH>().unwrap();
        let data = &reply.pdu[BHS_LENGTH..][..Bhs::new(bhs).data_segment_length()];
        match ours.receive(bhs, data, &mut entropy)? {
            LoginProgress::Send(bytes) => request = bytes,
            LoginProgress::Connected(connected) => return Ok((*connected, result.unwrap())),
        }
    }
}

fn settings(limits: Limits) -> LoginSettings {
    let isid = Isid([0x40, 0, 0, 0, 0, 1]);
    LoginSettings {
        limits,
        ..LoginSettings::new("iqn.2026-01.org.example:host", Some(TARGET.into()), isid)
    }
}

fn policy(limits: Limits, command_window: u32) -> Policy {
    Policy::with(Authorization::Allowed(LoginTerms {
        limits,
        command_window,
        ..terms()
    }))
}

struct Directory(usize);

impl TargetDirectory for Directory {
    fn visible_targets(&self) -> Vec<DiscoveredTarget> {
        let portals = vec![DiscoveredPortal {
            address: "[::1]:3260".into(),
            portal_group_tag: 1,
        }];
        (0..self.0)
            .map(|i| DiscoveredTarget {
                name: format!("iqn.2026-01.org.example:{i}"),
                portals: portals.clone(),
            })
            .collect()
    }
}

/// Two sessions, and the link between them.
struct Link {
    initiator: initiator::Session,
    target: Session<Arc<[u8]>, WriteBuffer>,
    index: usize,
    disk: Disk,
    user: User,
    text: TextExchange,
    kind: SessionKind,
    peer_max_data: u32,
    to_target: Vec<u8>,
    cuts: Vec<usize>,
    cut: usize,
}

impl Link {
    fn new(connected: &LoggedIn, result: &LoginResult, depth: u32, cuts: Vec<usize>) -> Self {
        let (session, connection) = (&result.session, &result.connection);
        let mut target = Session::new(SessionSettings {
            discovery: result.identity.session_kind == SessionKind::Discovery,
            max_burst_length: session.max_burst_length,
            first_burst_length: session.first_burst_length,
            max_outstanding_r2t: session.max_outstanding_r2t,
            initial_r2t: session.initial_r2t,
            immediate_data: session.immediate_data,
            exp_cmd_sn: result.exp_cmd_sn,
            queue_depth: depth,
            ping_after: None,
            ping_timeout: Duration::from_secs(5),
            data_out_timeout: Duration::from_secs(60),
        });
        let settings = ConnectionSettings {
            cid: result.identity.cid,
            header_digest: connection.header_digest,
            data_digest: connection.data_digest,
            max_recv_data_segment_length: connection.our_max_recv_data_segment_length,
            initiator_max_recv_data_segment_length: connection.peer_max_recv_data_segment_length,
            stat_sn: result.stat_sn,
        };
        let index = target.add_connection(&settings, Duration::ZERO);
        Self {
            initiator: initiator::Session::new(connected),
            target,
            index,
            disk: Disk::new(),
            user: User::default(),
            text: TextExchange::default(),
            kind: result.identity.session_kind,
            peer_max_data: connection.peer_max_recv_data_segment_length,
            to_target: Vec::new(),
            cuts,
            cut: 0,
        }
    }

    fn open(limits: Limits) -> Self {
        let (connected, result) =
            login(settings(limits), &mut policy(Limits::default(), 32)).unwrap();
        Self::new(&connected, &result, 32, vec![usize::MAX])
    }

    fn next_cut(&mut self, length: usize) -> usize {
        self.cut = (self.cut + 1) % self.cuts.len();
        self.cuts[self.cut].min(length)
    }

    fn submit(&mut self, cookie: u64, command: &Command) {
        self.initiator
            .command(cookie, command, &mut self.user, &mut self.to_target);
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Text {
                request,
                data,
                connection,
            } => {
                let context = TextContext {
                    session_kind: self.kind,
                    target_name: Some(TARGET),
                    peer_max_recv_data_segment_length: self.peer_max_data,
                };
                let reply = self
                    .text
                    .receive(&request, &data, &context, &Directory(500))
                    .unwrap();
                self.target
                    .text_response(connection, reply.header, reply.data);
            }
            Event::TaskManagement {
                request,
                referenced,
                connection,
            } => {
                let result = match referenced {
                    Some(task) => {
                        self.target.abort(task, false);
                        TaskManagementResult::Complete
                    }
                    None => TaskManagementResult::TaskDoesNotExist,
                };
                self.target
                    .task_management_response(connection, request.itt, result);
            }
            Event::Logout(_) => {}
        }
    }

    /// Carries bytes both ways until nothing moves.
    fn run(&mut self) {
        loop {
            let bytes = std::mem::take(&mut self.to_target);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let cut = self.next_cut(rest.len());
                let (mut piece, tail) = rest.split_at(cut);
                rest = tail;
                while let Some(event) = self
                    .target
                    .receive(self.index, &mut piece, Duration::ZERO, &mut self.disk)
                    .unwrap()
                {
                    self.event(event);
                }
                assert!(piece.is_empty());
            }
            if !self.disk.hold {
                for (task, completion) in std::mem::take(&mut self.disk.late) {
                    self.target.complete(task, completion);
                }
            }
            let mut bytes = Vec::new();
            self.target.gather(self.index, |piece| {
                bytes.extend_from_slice(piece);
                true
            });
            self.target.sent(self.index, bytes.len());
            let idle = bytes.is_empty();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let cut = self.next_cut(rest.len());
                let (piece, tail) = rest.split_at(cut);
                rest = tail;
                self.initiator
                    .receive(piece, &mut self.user, &mut self.to_target)
                    .unwrap();
            }
            if idle && self.to_target.is_empty() {
                return;
            }
        }
    }
}

fn io(direction: Direction, block: usize, blocks: usize) -> Command {
    let mut cdb = [0; 16];
    cdb[0] = if direction == Direction::Write {
        0x2a
    } else {
        0x28
    };
    cdb[2..6].copy_from_slice(&(block as u32).to_be_bytes());
    cdb[7..9].copy_from_slice(&(blocks as u16).to_be_bytes());
    let length = (blocks * BLOCK) as u32;
    Command {
        lun: 0,
        cdb,
        attribute: TaskAttribute::Simple,
        direction,
        length,
    }
}

fn test_unit_ready() -> Command {
    Command {
        lun: 0,
        cdb: [0; 16],
        attribute: TaskAttribute::Simple,
        direction: Direction::None,
        length: 0,
    }
}

fn limits() -> impl Strategy<Value = Limits> {
    let digest = || prop_oneof![Just(DigestPolicy::Allow), Just(DigestPolicy::Prefer)];
    let length = || prop_oneof![512u32..9000, 512u32..=0x00ff_ffff];
    (
        (any::<bool>(), any::<bool>(), 1u16..9),
        (length(), length(), length()),
        (digest(), digest()),
    )
        .prop_map(|(a, b, c)| Limits {
            initial_r2t: a.0,
            immediate_data: a.1,
            max_outstanding_r2t: a.2,
            max_burst_length: b.0,
            first_burst_length: b.1,
            max_recv_data_segment_length: b.2,
            header_digest: c.0,
            data_digest: c.1,
            ..Limits::default()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Tests that reads return the data that was written, with any negotiated values and any cuts
    /// of the bytes.
    #[test]
    fn reads_return_what_was_written(
        ours in limits(), theirs in limits(), depth in 1u32..20,
        cuts in proptest::collection::vec(prop_oneof![1usize..60, 100usize..20_000], 1..8),
        ios in proptest::collection::vec((any::<bool>(), 0usize..BLOCKS - 64, 1usize..64, any::<u8>()), 1..30),
    ) {
        let (connected, result) = login(settings(ours), &mut policy(theirs, depth)).unwrap();
        prop_assert_eq!(&connected.session, &result.session);
        prop_assert_eq!(connected.connection.header_digest, result.connection.header_digest);
        prop_assert_eq!(connected.connection.data_digest, result.connection.data_digest);
        prop_assert_eq!(connected.exp_stat_sn, result.stat_sn);
        prop_assert_eq!(connected.tsih, result.tsih);
        let mut link = Link::new(&connected, &result, depth, cuts);
        let mut model = vec![0; BLOCK * BLOCKS];
        // Writes whose order does not matter are checked by reads after all of them.
        for (cookie, (write, block, blocks, fill)) in ios.iter().enumerate() {
            let range = block * BLOCK..(block + blocks) * BLOCK;
            if *write {
                let data: Vec<u8> = (0..blocks * BLOCK).map(|i| fill.wrapping_add((i / 7) as u8)).collect();
                model[range].copy_from_slice(&data);
                link.user.writes.insert(cookie as u64, data);
                link.submit(cookie as u64, &io(Direction::Write, *block, *blocks));
                link.run();
            }
        }
        for (cookie, (_, block, blocks, _)) in ios.iter().enumerate() {
            link.submit(1000 + cookie as u64, &io(Direction::Read, *block, *blocks));
        }
        prop_assert!(link.initiator.outstanding() <= depth as usize);
        link.run();
        prop_assert_eq!(link.initiator.outstanding() + link.initiator.waiting(), 0);
        for (cookie, (write, block, blocks, _)) in ios.iter().enumerate() {
            let good = (0, Vec::new(), Residual::None);
            if *write { prop_assert_eq!(&link.user.ended[&(cookie as u64)], &good); }
            let cookie = 1000 + cookie as u64;
            prop_assert_eq!(&link.user.ended[&cookie], &good);
            prop_assert_eq!(&link.user.reads[&cookie], &model[block * BLOCK..(block + blocks) * BLOCK]);
        }
        prop_assert!(link.disk.bytes == model);
    }
}

#[test]
fn many_commands_wait_for_the_window_and_all_end() {
    let mut link = Link::open(Limits::default());
    for cookie in 0..1000 {
        link.submit(cookie, &test_unit_ready());
    }
    assert_eq!(
        (link.initiator.outstanding(), link.initiator.waiting()),
        (32, 968)
    );
    link.run();
    assert_eq!(link.user.ended.len(), 1000);
    let late: Vec<u64> = (32..1000).collect();
    assert_eq!(link.user.sent_late, late, "those that waited, in order");
}

#[test]
fn sense_and_residuals_arrive() {
    let mut link = Link::open(Limits::default());
    let mut unknown = test_unit_ready();
    unknown.cdb[0] = 0xff;
    link.submit(1, &unknown);
    // The initiator expects more, and less, than the command reads.
    link.submit(
        2,
        &Command {
            length: 4096,
            ..io(Direction::Read, 0, 4)
        },
    );
    link.submit(
        3,
        &Command {
            length: 1024,
            ..io(Direction::Read, 0, 4)
        },
    );
    link.run();
    assert_eq!(link.user.ended[&1], (2, vec![0x70, 0, 5], Residual::None));
    assert_eq!(link.user.ended[&2], (0, vec![], Residual::Underflow(2048)));
    assert_eq!(link.user.ended[&3], (0, vec![], Residual::Overflow(1024)));
    assert_eq!(
        (link.user.reads[&2].len(), link.user.reads[&3].len()),
        (2048, 1024)
    );
}

#[test]
fn ping_text_and_logout() {
    let mut link = Link::open(Limits::default());
    link.initiator.ping(&mut link.to_target);
    link.run();
    assert_eq!(link.user.events, [SessionEvent::Pong]);
    link.initiator.logout(&mut link.to_target);
    link.run();
    assert_eq!(
        link.user.events[1],
        SessionEvent::LoggedOut(LogoutResult::Closed)
    );
    assert!(link.target.is_logged_out(link.index));
}

#[test]
fn an_aborted_command_ends_once() {
    let mut link = Link::open(Limits::default());
    link.disk.hold = true;
    link.submit(5, &test_unit_ready());
    link.run();
    let abort = TaskManagementFunction::AbortTask;
    assert!(
        !link
            .initiator
            .task_management(9, abort, 0, Some(6), &mut link.to_target)
    );
    assert!(
        link.initiator
            .task_management(9, abort, 0, Some(5), &mut link.to_target)
    );
    link.run();
    let result = TaskManagementResult::Complete;
    assert_eq!(
        link.user.events,
        [SessionEvent::TaskManagement { cookie: 9, result }]
    );
    assert!(link.initiator.forget(5));
    link.disk.hold = false;
    link.run();
    assert!(link.user.ended.is_empty());
    assert_eq!(link.initiator.outstanding(), 0);
}

#[test]
fn abandoned_commands_come_back_in_order() {
    let mut link = Link::open(Limits::default());
    for cookie in 0..40 {
        link.submit(cookie, &test_unit_ready());
    }
    assert_eq!(link.initiator.abandon(), (0..40).collect::<Vec<_>>());
    assert_eq!(link.initiator.outstanding() + link.initiator.waiting(), 0);
}

#[test]
fn discovery_of_five_hundred_targets_in_pieces() {
    let isid = Isid([0x40, 0, 0, 0, 0, 2]);
    let mut settings = LoginSettings::new("iqn.2026-01.org.example:host", None, isid);
    settings.limits.max_recv_data_segment_length = 4096;
    let (connected, result) = login(settings, &mut Policy::open()).unwrap();
    assert_eq!(result.identity.session_kind, SessionKind::Discovery);
    let mut link = Link::new(&connected, &result, 4, vec![1000, 3]);
    link.initiator.send_targets("All", &mut link.to_target);
    link.run();
    let [SessionEvent::Text(text)] = &link.user.events[..] else {
        panic!("{:?}", link.user.events)
    };
    let answer = send_targets::parse(text);
    assert_eq!(answer.targets, Directory(500).visible_targets());
    assert_eq!(answer.left_out, Vec::<String>::new());
}

#[test]
fn chap_between_the_two_with_every_hash() {
    for algorithm in ChapAlgorithm::ALL {
        for (secret, target_secret, ok) in [
            ("initiator-secret", None, true),
            ("initiator-secret", Some("target-secret"), true),
            ("wrong", None, false),
        ] {
            let mut settings = settings(Limits::default());
            settings.credential = Some(credential("host", secret));
            settings.target_credential = target_secret.map(|secret| credential("target", secret));
            settings.algorithms = vec![algorithm];
            let mut policy = Policy::chap(Some(credential("target", "target-secret")));
            match login(settings, &mut policy) {
                Ok((_, result)) => {
                    assert!(ok && result.authenticated_as.as_deref() == Some("host"))
                }
                Err(error) => {
                    assert!(!ok);
                    assert_eq!(
                        error,
                        LoginError::Refused(LoginStatus::AUTHENTICATION_FAILURE)
                    );
                }
            }
        }
    }
    // A target with the wrong secret is not trusted, and one that wants no authentication cannot
    // avoid it.
    let mut mutual = settings(Limits::default());
    mutual.credential = Some(credential("host", "initiator-secret"));
    mutual.target_credential = Some(credential("target", "another"));
    let mut policy = Policy::chap(Some(credential("target", "target-secret")));
    assert!(matches!(
        login(mutual.clone(), &mut policy),
        Err(LoginError::Chap(_))
    ));
    assert!(login(mutual, &mut Policy::open()).is_err());
}

#[test]
fn redirects_and_refusals_reach_the_caller() {
    let redirect = Authorization::Redirect {
        address: "192.0.2.7:3260".into(),
        permanent: true,
    };
    let error = login(settings(Limits::default()), &mut Policy::with(redirect)).unwrap_err();
    assert_eq!(
        error,
        LoginError::Redirected {
            address: "192.0.2.7:3260".into(),
            permanent: true
        }
    );
    let refused = Authorization::Refused {
        status: LoginStatus::NOT_FOUND,
        reason: String::new(),
    };
    let error = login(settings(Limits::default()), &mut Policy::with(refused)).unwrap_err();
    assert_eq!(error, LoginError::Refused(LoginStatus::NOT_FOUND));
}
