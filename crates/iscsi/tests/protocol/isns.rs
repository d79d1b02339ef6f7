//! Tests of iSNS messages: bytes as the RFC draws them, in any pieces, and damage of every kind.

use std::net::SocketAddr;

use iscsi::isns::{
    Assembler, Attributes, DecodeError, Flags, Function, MAX_MESSAGE, MAX_PDU_PAYLOAD, Message,
    Node, Registration, Response, Status, Tag, Visitor, found_targets,
};
use proptest::prelude::*;

const A: &str = "10.0.0.1:3260";
const B: &str = "[2001:db8::1]:3261";

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn registration() -> Registration {
    Registration {
        entity: "sandstone-1".into(),
        period_s: 600,
        portals: vec![at(A), at(B)],
        nodes: vec![
            Node {
                name: "iqn.2026-01.x:a".into(),
                alias: "first".into(),
                portal_groups: vec![(at(A), 7)],
            },
            Node {
                name: "iqn.2026-01.x:b".into(),
                alias: String::new(),
                portal_groups: vec![(at(A), 1), (at(B), 2)],
            },
        ],
    }
}

/// Returns tag and value of every attribute.
fn attributes(message: &Message) -> Vec<(u32, Vec<u8>)> {
    Attributes::new(&message.payload)
        .map(|attribute| attribute.unwrap())
        .map(|attribute| (attribute.tag.0, attribute.value.to_vec()))
        .collect()
}

fn padded(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn number(value: u32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn mapped(v4: [u8; 4]) -> Vec<u8> {
    let mut bytes = vec![0; 10];
    bytes.extend([0xff, 0xff]);
    bytes.extend(v4);
    bytes
}

fn answer(status: u32, attributes: &[(u32, Vec<u8>)]) -> Message {
    let mut payload = number(status);
    for (tag, value) in attributes {
        payload.extend(number(*tag));
        payload.extend(number(value.len() as u32));
        payload.extend(value);
    }
    Message {
        function: Function::DEV_ATTR_REG.response(),
        flags: Flags::SERVER,
        transaction_id: 1,
        payload,
    }
}

#[test]
fn a_registration_is_the_entity_then_portals_then_nodes_then_their_groups() {
    let message = registration().register("iqn.2026-01.x:a", true, 9);
    assert_eq!(message.function, Function::DEV_ATTR_REG);
    assert_eq!(message.flags, Flags(0x9000));
    let v6 = match at(B).ip() {
        std::net::IpAddr::V6(v6) => v6.octets().to_vec(),
        std::net::IpAddr::V4(_) => unreachable!(),
    };
    let v4 = mapped([10, 0, 0, 1]);
    let group = |node: &str, ip: &[u8], port, tag: Vec<u8>| {
        [
            (48, padded(node)),
            (49, ip.to_vec()),
            (50, number(port)),
            (51, tag),
        ]
    };
    let mut expected = vec![
        (32, padded("iqn.2026-01.x:a")),
        (1, padded("sandstone-1")),
        (0, vec![]),
        (1, padded("sandstone-1")),
        (2, number(2)),
        (6, number(600)),
        (16, v4.clone()),
        (17, number(3260)),
        (16, v6.clone()),
        (17, number(3261)),
        (32, padded("iqn.2026-01.x:a")),
        (33, number(1)),
        (34, padded("first")),
        (32, padded("iqn.2026-01.x:b")),
        (33, number(1)),
    ];
    expected.extend(group("iqn.2026-01.x:a", &v4, 3260, number(7)));
    // Without a tag, the portal does not lead to this node.
    expected.extend(group("iqn.2026-01.x:a", &v6, 3261, vec![]));
    expected.extend(group("iqn.2026-01.x:b", &v4, 3260, number(1)));
    expected.extend(group("iqn.2026-01.x:b", &v6, 3261, number(2)));
    assert_eq!(attributes(&message), expected);
    let header = message.encode();
    let length = (header.len() - 12) as u16;
    let mut expected = vec![0, 1, 0, 1];
    expected.extend(length.to_be_bytes());
    expected.extend([0x9c, 0x00, 0, 9, 0, 0]);
    assert_eq!(header[..12], expected);
}

#[test]
fn a_deregistration_names_only_what_is_gone() {
    let before = registration();
    assert_eq!(before.deregister_gone(&before, "iqn.2026-01.x:a", 1), None);
    let mut after = registration();
    after.nodes.pop();
    after.portals.pop();
    let message = before
        .deregister_gone(&after, "iqn.2026-01.x:a", 2)
        .unwrap();
    assert_eq!(message.function, Function::DEV_DEREG);
    let tags: Vec<u32> = attributes(&message).iter().map(|(tag, _)| *tag).collect();
    assert_eq!(tags, [32, 0, 32, 16, 17]);
    assert_eq!(attributes(&message)[2].1, padded("iqn.2026-01.x:b"));
    let all = before.deregister("iqn.2026-01.x:a", 3);
    assert_eq!(
        attributes(&all),
        [
            (32, padded("iqn.2026-01.x:a")),
            (0, vec![]),
            (1, padded("sandstone-1"))
        ]
    );
}

#[test]
fn an_answer_tells_what_the_server_holds() {
    let mut attributes = vec![
        (1, padded("sandstone-1")),
        (0, vec![]),
        (6, number(900)),
        (32, padded("iqn.2026-01.x:a")),
        (32, padded("iqn.2026-01.x:b")),
        (16, mapped([10, 0, 0, 1])),
        (17, number(3260)),
        // This is a UDP port, of another portal.
        (16, mapped([10, 0, 0, 1])),
        (17, number(0x1_0000 | 3261)),
        // This client does not know the first attribute, and the second has no value.
        (999, vec![1, 2, 3, 4]),
        (33, vec![]),
    ];
    let response = Response::decode(&answer(0, &attributes)).unwrap();
    assert_eq!(response.status, Status::SUCCESSFUL);
    assert_eq!(response.period_s, Some(900));
    assert_eq!(response.portals, [at(A)]);
    assert!(!response.holds(&registration()), "a portal is missing");
    let mut full = vec![0x20, 0x01, 0x0d, 0xb8];
    full.extend([0; 11]);
    full.push(1);
    attributes.extend([(16, full), (17, number(3261))]);
    let response = Response::decode(&answer(0, &attributes)).unwrap();
    assert!(response.holds(&registration()));
    let refused = Response::decode(&answer(8, &[])).unwrap();
    assert_eq!(refused.status.to_string(), "source unauthorized (status 8)");
}

#[test]
fn malformed_answers_are_told_apart() {
    let of = |payload: &[u8]| {
        Response::decode(&Message {
            function: Function::DEV_ATTR_QRY.response(),
            flags: Flags::SERVER,
            transaction_id: 0,
            payload: payload.to_vec(),
        })
    };
    assert_eq!(of(&[0, 0]), Err(DecodeError::NoStatus));
    let mut lies = number(0);
    lies.extend(number(32));
    lies.extend(number(4000));
    assert_eq!(of(&lies), Err(DecodeError::Attribute));
    let mut overflows = number(0);
    overflows.extend(number(32));
    overflows.extend(number(u32::MAX));
    assert_eq!(of(&overflows), Err(DecodeError::Attribute));
    let short = answer(0, &[(6, vec![1, 2])]);
    // There are two bytes and no padding: the attribute itself runs over.
    assert_eq!(Response::decode(&short), Err(DecodeError::Attribute));
    let long = answer(0, &[(6, vec![0; 8])]);
    assert_eq!(
        Response::decode(&long),
        Err(DecodeError::Value(Tag::REGISTRATION_PERIOD))
    );
    let inside = answer(0, &[(32, b"iqn\0x\0\0\0".to_vec())]);
    assert_eq!(
        Response::decode(&inside),
        Err(DecodeError::Value(Tag::ISCSI_NAME))
    );
}

#[test]
fn streams_that_are_not_isns_end_at_once() {
    let refused = |change: fn(&mut Vec<u8>)| {
        let mut bytes = answer(0, &[]).encode();
        change(&mut bytes);
        let mut assembler = Assembler::default();
        assembler.push(&bytes);
        assembler.next_message()
    };
    assert_eq!(refused(|b| b[1] = 2), Err(DecodeError::Version(2)));
    assert_eq!(refused(|b| b[5] = 3), Err(DecodeError::Length(3)));
    assert_eq!(refused(|b| b[6] |= 0x20), Err(DecodeError::Signed));
    // The PDU is not the first of any message.
    assert_eq!(refused(|b| b[6] &= !0x04), Err(DecodeError::Sequence));
    assert_eq!(refused(|b| b[11] = 1), Err(DecodeError::Sequence));
    let mut assembler = Assembler::default();
    assembler.push(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    assert_eq!(
        assembler.next_message(),
        Err(DecodeError::Version(u16::from_be_bytes(*b"HT")))
    );
}

#[test]
fn a_message_without_end_is_cut_off() {
    let mut assembler = Assembler::default();
    let piece = vec![0; MAX_PDU_PAYLOAD];
    for sequence in 0..=(MAX_MESSAGE / MAX_PDU_PAYLOAD) as u16 {
        let flags: u16 = if sequence == 0 { 0x4400 } else { 0x4000 };
        for word in [1, 0x8002, MAX_PDU_PAYLOAD as u16, flags, 7, sequence] {
            assembler.push(&word.to_be_bytes());
        }
        assembler.push(&piece);
        match assembler.next_message() {
            Ok(None) => {}
            other => {
                assert_eq!(other, Err(DecodeError::TooLong));
                return;
            }
        }
    }
    panic!("a message without end was taken");
}

fn message() -> impl Strategy<Value = Message> {
    let payload = prop_oneof![
        4 => prop::collection::vec(any::<[u8; 4]>(), 0..64),
        1 => prop::collection::vec(any::<[u8; 4]>(), 16_000..40_000),
    ];
    (any::<u16>(), any::<u16>(), any::<bool>(), payload).prop_map(
        |(function, transaction_id, replace, words)| Message {
            function: Function(function),
            flags: if replace {
                Flags::CLIENT.and(Flags::REPLACE)
            } else {
                Flags::SERVER
            },
            transaction_id,
            payload: words.concat(),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn messages_arrive_whole_however_the_bytes_are_cut(
        messages in prop::collection::vec(message(), 1..4),
        cuts in prop::collection::vec(1_usize..70_000, 1..32),
    ) {
        let bytes: Vec<u8> = messages.iter().flat_map(Message::encode).collect();
        let mut assembler = Assembler::default();
        let mut arrived = Vec::new();
        let mut rest = &bytes[..];
        let mut cuts = cuts.iter().cycle();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
            assembler.push(piece);
            rest = after;
            while let Some(message) = assembler.next_message().unwrap() {
                arrived.push(message);
            }
        }
        prop_assert_eq!(arrived, messages);
    }

    #[test]
    fn damage_is_an_error_or_another_message_and_never_a_panic(
        message in message(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = message.encode();
        for (index, byte) in damage {
            let index = index.index(bytes.len().min(64));
            bytes[index] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let mut assembler = Assembler::default();
        assembler.push(&bytes);
        while let Ok(Some(message)) = assembler.next_message() {
            prop_assert!(message.payload.len() <= bytes.len());
            let _ = Response::decode(&message);
        }
    }

    #[test]
    fn any_attributes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let total: usize = Attributes::new(&bytes).flatten().map(|a| a.value.len() + 8).sum();
        prop_assert!(total <= bytes.len());
        let message = Message { payload: bytes, ..answer(0, &[]) };
        let _ = Response::decode(&message);
    }
}

fn visitor() -> Visitor {
    Visitor {
        name: "iqn.2026-01.x:me".into(),
        portal: at(A),
    }
}

#[test]
fn an_initiator_asks_for_targets_and_their_portal_groups() {
    let question = visitor().targets(3);
    assert_eq!(question.function, Function::DEV_ATTR_QRY);
    assert_eq!(question.flags, Flags::CLIENT);
    let mut expected = vec![
        (32, padded("iqn.2026-01.x:me")),
        (33, number(1)),
        (0, vec![]),
    ];
    expected.extend([32, 48, 49, 50, 51].map(|tag| (tag, vec![])));
    assert_eq!(attributes(&question), expected);
    let registration = attributes(&visitor().register(4));
    assert!(registration.contains(&(33, number(2))) && registration.contains(&(17, number(3260))));
    assert_eq!(
        attributes(&visitor().deregister(5)).last(),
        Some(&(1, padded("iqn.2026-01.x:me")))
    );
}

#[test]
fn what_a_server_found_is_grouped_by_target() {
    let group = |name: &str, last: u8, tag: Vec<u8>| {
        [
            (48, padded(name)),
            (49, mapped([10, 0, 0, last])),
            (50, number(3260)),
            (51, tag),
        ]
    };
    let mut told = vec![
        // The key comes back.
        (33, number(1)),
        (32, padded("iqn.2026-01.x:key")),
        (0, vec![]),
        (32, padded("iqn.2026-01.x:b")),
    ];
    told.extend(group("iqn.2026-01.x:a", 1, number(7)));
    told.extend(group("iqn.2026-01.x:a", 1, number(7)));
    told.extend(group("iqn.2026-01.x:a", 2, vec![]));
    told.extend(group("iqn.2026-01.x:b", 3, number(1)));
    let (status, found) = found_targets(&answer(0, &told)).unwrap();
    assert_eq!(status, Status::SUCCESSFUL);
    let found: Vec<_> = found
        .iter()
        .map(|target| (target.name.as_str(), target.portals.clone()))
        .collect();
    assert_eq!(
        found,
        [
            ("iqn.2026-01.x:b", vec![(at("10.0.0.3:3260"), 1)]),
            ("iqn.2026-01.x:a", vec![(at("10.0.0.1:3260"), 7)]),
        ]
    );
    assert_eq!(
        found_targets(&answer(9, &told)).unwrap(),
        (Status::NO_SUCH_ENTRY, Vec::new())
    );
    told.extend(group("iqn.2026-01.x:a", 4, number(70_000)));
    assert_eq!(
        found_targets(&answer(0, &told)),
        Err(DecodeError::Value(Tag::PG_TAG))
    );
}

proptest! {
    #[test]
    fn whatever_a_server_answers_is_read_or_refused(payload in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut message = answer(0, &[]);
        message.payload.extend(payload);
        if let Ok((_, found)) = found_targets(&message) {
            prop_assert!(found.len() <= 50);
        }
    }
}
