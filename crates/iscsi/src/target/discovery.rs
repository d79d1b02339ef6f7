//! Text requests in the full-feature phase: SendTargets, and new declarations of
//! MaxRecvDataSegmentLength (RFC 7143 §11.10, §11.11, Appendix C).
//!
//! One [`TextExchange`] lives with each connection. A text longer than the initiator's
//! MaxRecvDataSegmentLength goes out in pieces, one for each empty request that asks for more.

use std::fmt;

use crate::name;
use crate::negotiation::{Limits, Negotiation, NegotiationError, Scope};
use crate::pdu::{RESERVED_TAG, RejectReason, TextRequest, TextResponse};
use crate::send_targets;
pub use crate::send_targets::{DiscoveredPortal, DiscoveredTarget};
use crate::target::login::SessionKind;
use crate::text_keys::{REJECT, TextError, TextInput, TextOutput, TextPairs};

/// Most text in bytes that is accepted in one exchange.
const MAX_TEXT: usize = 16 << 10;
/// Most requests accepted that bring text in pieces. Requests that fetch a long answer are not
/// counted, because each takes a piece away.
const MAX_REQUESTS: u32 = 64;

/// Targets of which an initiator may know. It is implemented once per session, because the answer
/// depends on the initiator and on the portal of its connection.
pub trait TargetDirectory {
    /// Returns the targets to which the initiator may log in.
    fn visible_targets(&self) -> Vec<DiscoveredTarget>;
}

/// Session from which text requests come.
#[derive(Clone, Copy, Debug)]
pub struct TextContext<'a> {
    /// SessionType.
    pub session_kind: SessionKind,
    /// Target to which a normal session is logged in.
    pub target_name: Option<&'a str>,
    /// Longest data segment that the initiator takes, in bytes.
    pub peer_max_recv_data_segment_length: u32,
}

/// Answer to a text request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextReply {
    /// Flags, tags and LUN. The sender fills in StatSN, the command window and the length.
    pub header: TextResponse,
    /// Data segment of the answer.
    pub data: Vec<u8>,
    /// MaxRecvDataSegmentLength that the initiator declared anew, in force after this response.
    pub peer_max_recv_data_segment_length: Option<u32>,
}

/// Text request that is to be answered by Reject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextRefusal {
    /// Reason of the Reject PDU.
    pub reason: RejectReason,
    /// Reason for the log.
    pub why: &'static str,
}

impl fmt::Display for TextRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why)
    }
}

impl From<TextError> for TextRefusal {
    fn from(_: TextError) -> Self {
        Self {
            reason: RejectReason::ProtocolError,
            why: "malformed or oversized text",
        }
    }
}

impl From<NegotiationError> for TextRefusal {
    fn from(_: NegotiationError) -> Self {
        Self {
            reason: RejectReason::ProtocolError,
            why: "text negotiation failed",
        }
    }
}

/// Text exchange of one connection. At most one is open at a time.
#[derive(Debug, Default)]
pub struct TextExchange {
    open: Option<Open>,
    next_ttt: u32,
}

#[derive(Debug)]
struct Open {
    itt: u32,
    lun: u64,
    ttt: u32,
    requests: u32,
    input: TextInput,
    output: TextOutput,
    negotiation: Negotiation,
    declared: Option<u32>,
}

impl TextExchange {
    /// Takes one request and its data segment.
    ///
    /// # Errors
    /// The refusal for a Reject. The exchange is over then.
    pub fn receive(
        &mut self,
        request: &TextRequest,
        data: &[u8],
        context: &TextContext<'_>,
        directory: &dyn TargetDirectory,
    ) -> Result<TextReply, TextRefusal> {
        let mut open = self.open_exchange(request)?;
        open.input.push(data)?;
        if request.continues {
            open.count_request()?;
            return Ok(self.unfinished(open, Vec::new()));
        }
        let text = open.input.take();
        if open.output.is_empty() {
            if !request.is_final {
                open.count_request()?;
            }
            open.answer(&text, context, directory)?;
        } else if TextPairs::new(&text).next().is_some() {
            return Err(protocol_error("text while a response was incomplete"));
        }
        let data = open
            .output
            .next_segment(context.peer_max_recv_data_segment_length as usize)
            .to_vec();
        if !open.output.is_empty() || !request.is_final {
            return Ok(self.unfinished(open, data));
        }
        let header = response(&open, RESERVED_TAG, true, false);
        Ok(TextReply {
            header,
            data,
            peer_max_recv_data_segment_length: open.declared,
        })
    }

    /// Returns the exchange that the request begins or continues.
    fn open_exchange(&mut self, request: &TextRequest) -> Result<Open, TextRefusal> {
        // Every request resets an open exchange, unless it continues that exchange (RFC 7143 §6.4,
        // §11.10.4).
        let open = self.open.take();
        if request.is_final && request.continues {
            return Err(protocol_error("text request with both F and C"));
        }
        if request.ttt == RESERVED_TAG {
            let ttt = self.next_ttt;
            self.next_ttt = if ttt == RESERVED_TAG - 1 { 0 } else { ttt + 1 };
            return Ok(Open {
                itt: request.itt,
                lun: request.lun,
                ttt,
                requests: 0,
                input: TextInput::new(MAX_TEXT),
                output: TextOutput::new(),
                negotiation: Negotiation::new(Scope::FullFeature, Limits::default()),
                declared: None,
            });
        }
        match open {
            Some(open) if (open.ttt, open.itt) == (request.ttt, request.itt) => Ok(open),
            _ => Err(TextRefusal {
                reason: RejectReason::InvalidPduField,
                why: "unknown Target Transfer Tag",
            }),
        }
    }

    /// Keeps the exchange open: the initiator has to come back.
    fn unfinished(&mut self, open: Open, data: Vec<u8>) -> TextReply {
        let continues = !open.output.is_empty();
        let header = response(&open, open.ttt, false, continues);
        self.open = Some(open);
        TextReply {
            header,
            data,
            peer_max_recv_data_segment_length: None,
        }
    }
}

impl Open {
    fn count_request(&mut self) -> Result<(), TextRefusal> {
        self.requests += 1;
        if self.requests > MAX_REQUESTS {
            return Err(protocol_error("too many text requests in one exchange"));
        }
        Ok(())
    }

    fn answer(
        &mut self,
        text: &[u8],
        context: &TextContext<'_>,
        directory: &dyn TargetDirectory,
    ) -> Result<(), TextRefusal> {
        for pair in TextPairs::new(text) {
            let (key, value) = pair?;
            match key {
                "SendTargets" => self.send_targets(value, context, directory)?,
                "InitiatorAlias" => {}
                "InitiatorName"
                | "TargetName"
                | "SessionType"
                | "TargetAlias"
                | "TargetAddress"
                | "TargetPortalGroupTag"
                | "AuthMethod"
                | "CHAP_A"
                | "CHAP_I"
                | "CHAP_C"
                | "CHAP_N"
                | "CHAP_R" => {
                    self.output.push(key, REJECT);
                }
                _ => {
                    self.negotiation.receive(key, value, &mut self.output)?;
                    if key == "MaxRecvDataSegmentLength" {
                        self.declared = self.negotiation.declared_by_peer();
                    }
                }
            }
        }
        Ok(())
    }

    /// Answers SendTargets by Appendix C: `All` in discovery sessions, nothing in normal sessions,
    /// a name in both.
    ///
    /// `All` in a normal session shows no more than nothing does. The RFC lets it show nothing
    /// else. Clients (libiscsi) that ask so there take a refusal for a broken session.
    fn send_targets(
        &mut self,
        value: &str,
        context: &TextContext<'_>,
        directory: &dyn TargetDirectory,
    ) -> Result<(), TextRefusal> {
        if !self.output.is_empty() && self.output.remaining() > MAX_TEXT {
            return Err(protocol_error("SendTargets repeated"));
        }
        let wanted = match (context.session_kind, value) {
            (SessionKind::Discovery, "All") => None,
            (SessionKind::Normal, "" | "All") => context.target_name,
            (_, name) => Some(name),
        };
        let mut targets = directory.visible_targets();
        if let Some(wanted) = wanted {
            targets.retain(|target| name::is_same(&target.name, wanted));
        }
        // The word is no target's name, and has no standard form. So it was meant as something
        // else.
        if targets.is_empty() && wanted.is_some_and(|name| !has_standard_form(name)) {
            self.output.push("SendTargets", REJECT);
        }
        for target in &targets {
            send_targets::push(target, &mut self.output);
        }
        Ok(())
    }
}

/// Reports whether a name begins as RFC 7143 4.2.7.2 demands.
fn has_standard_form(name: &str) -> bool {
    ["iqn.", "eui.", "naa."].iter().any(|form| {
        name.get(..form.len())
            .is_some_and(|start| name::is_same(start, form))
    })
}

fn response(open: &Open, ttt: u32, is_final: bool, continues: bool) -> TextResponse {
    TextResponse {
        is_final,
        continues,
        data_segment_length: 0,
        lun: open.lun,
        itt: open.itt,
        ttt,
        stat_sn: 0,
        exp_cmd_sn: 0,
        max_cmd_sn: 0,
    }
}

const fn protocol_error(why: &'static str) -> TextRefusal {
    TextRefusal {
        reason: RejectReason::ProtocolError,
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Directory(usize);

    impl TargetDirectory for Directory {
        fn visible_targets(&self) -> Vec<DiscoveredTarget> {
            (0..self.0)
                .map(|i| DiscoveredTarget {
                    name: format!("iqn.2026-01.org.example:{i}"),
                    portals: vec![
                        DiscoveredPortal {
                            address: "192.0.2.1:3260".into(),
                            portal_group_tag: 1,
                        },
                        DiscoveredPortal {
                            address: "[2001:db8::1]:3260".into(),
                            portal_group_tag: 2,
                        },
                    ],
                })
                .collect()
        }
    }

    fn request(is_final: bool, continues: bool, ttt: u32) -> TextRequest {
        TextRequest {
            immediate: true,
            is_final,
            continues,
            data_segment_length: 0,
            lun: 0,
            itt: 5,
            ttt,
            cmd_sn: 0,
            exp_stat_sn: 0,
        }
    }

    const DISCOVERY: TextContext<'static> = TextContext {
        session_kind: SessionKind::Discovery,
        target_name: None,
        peer_max_recv_data_segment_length: 8192,
    };
    const NORMAL: TextContext<'static> = TextContext {
        session_kind: SessionKind::Normal,
        target_name: Some("iqn.2026-01.org.example:1"),
        peer_max_recv_data_segment_length: 8192,
    };

    fn ask(context: &TextContext<'_>, text: &str) -> String {
        let mut exchange = TextExchange::default();
        let reply = exchange
            .receive(
                &request(true, false, RESERVED_TAG),
                text.as_bytes(),
                context,
                &Directory(3),
            )
            .unwrap();
        assert!(reply.header.is_final && !reply.header.continues);
        assert_eq!((reply.header.ttt, reply.header.itt), (RESERVED_TAG, 5));
        String::from_utf8(reply.data).unwrap()
    }

    fn shown(i: usize) -> String {
        format!(
            "TargetName=iqn.2026-01.org.example:{i}\0TargetAddress=192.0.2.1:3260,1\0TargetAddress=[2001:db8::1]:3260,2\0"
        )
    }

    #[test]
    fn send_targets() {
        let all = shown(0) + &shown(1) + &shown(2);
        assert_eq!(ask(&DISCOVERY, "SendTargets=All\0"), all);
        assert_eq!(
            ask(&DISCOVERY, "SendTargets=iqn.2026-01.ORG.example:2\0"),
            shown(2)
        );
        assert_eq!(
            ask(&DISCOVERY, "SendTargets=iqn.2026-01.org.example:9\0"),
            ""
        );
        assert_eq!(ask(&DISCOVERY, "SendTargets=\0"), "SendTargets=Reject\0");
        assert_eq!(ask(&NORMAL, "SendTargets=\0"), shown(1));
        assert_eq!(ask(&NORMAL, "SendTargets=All\0"), shown(1));
        assert_eq!(ask(&NORMAL, "SendTargets=Alle\0"), "SendTargets=Reject\0");
        assert_eq!(ask(&DISCOVERY, "SendTargets=A\0"), "SendTargets=Reject\0");
    }

    #[test]
    fn other_keys() {
        assert_eq!(
            ask(&NORMAL, "X-a=1\0AuthMethod=None\0"),
            "X-a=NotUnderstood\0AuthMethod=Reject\0"
        );
        assert_eq!(
            ask(&NORMAL, "MaxBurstLength=512\0"),
            "MaxBurstLength=Irrelevant\0"
        );
        assert_eq!(ask(&NORMAL, "InitiatorAlias=x\0"), "");
    }

    #[test]
    fn a_new_max_recv_data_segment_length_is_told_with_the_last_response() {
        let text = b"MaxRecvDataSegmentLength=65536\0";
        let mut exchange = TextExchange::default();
        let first = exchange
            .receive(
                &request(false, false, RESERVED_TAG),
                text,
                &NORMAL,
                &Directory(0),
            )
            .unwrap();
        assert_eq!(
            (
                first.header.is_final,
                first.peer_max_recv_data_segment_length
            ),
            (false, None)
        );
        let last = exchange
            .receive(
                &request(true, false, first.header.ttt),
                &[],
                &NORMAL,
                &Directory(0),
            )
            .unwrap();
        assert_eq!(last.peer_max_recv_data_segment_length, Some(65_536));
        let bad = b"MaxRecvDataSegmentLength=1\0";
        let refused = exchange.receive(
            &request(true, false, RESERVED_TAG),
            bad,
            &NORMAL,
            &Directory(0),
        );
        assert_eq!(refused.unwrap_err().reason, RejectReason::ProtocolError);
    }

    #[test]
    fn unknown_tags_are_rejected() {
        let mut exchange = TextExchange::default();
        let refused = exchange.receive(&request(true, false, 77), &[], &NORMAL, &Directory(0));
        assert_eq!(refused.unwrap_err().reason, RejectReason::InvalidPduField);
    }

    /// Tests RFC 7143 §6.4, §11.10.4: a request with the reserved tag resets the negotiation, and
    /// so does a Reject.
    #[test]
    fn a_new_exchange_or_a_reject_ends_the_one_that_is_open() {
        let mut exchange = TextExchange::default();
        let begin = |exchange: &mut TextExchange, text: &[u8]| {
            let request = request(false, false, RESERVED_TAG);
            let reply = exchange.receive(&request, text, &NORMAL, &Directory(1));
            reply.unwrap().header.ttt
        };
        let go_on = |exchange: &mut TextExchange, ttt, text: &[u8]| {
            exchange.receive(&request(true, false, ttt), text, &NORMAL, &Directory(1))
        };
        let old = begin(&mut exchange, b"MaxRecvDataSegmentLength=512\0");
        // The new exchange is answered at once.
        let new = go_on(
            &mut exchange,
            RESERVED_TAG,
            b"MaxRecvDataSegmentLength=1024\0",
        );
        assert_eq!(new.unwrap().peer_max_recv_data_segment_length, Some(1024));
        let refused = go_on(&mut exchange, old, b"").unwrap_err();
        assert_eq!(refused.reason, RejectReason::InvalidPduField);
        // The old exchange is refused.
        let old = begin(&mut exchange, b"");
        let refused = go_on(&mut exchange, RESERVED_TAG, b"no pair\0").unwrap_err();
        assert_eq!(refused.reason, RejectReason::ProtocolError);
        assert!(go_on(&mut exchange, old, b"").is_err());
        let old = begin(&mut exchange, b"");
        let both = exchange.receive(
            &request(true, true, RESERVED_TAG),
            b"",
            &NORMAL,
            &Directory(1),
        );
        assert!(both.is_err());
        assert!(go_on(&mut exchange, old, b"").is_err());
    }

    /// Tests attack 4: requests without text that promise more for ever.
    #[test]
    fn empty_text_that_always_continues_is_cut_off() {
        let mut exchange = TextExchange::default();
        let mut ttt = RESERVED_TAG;
        let answered = (0..1000)
            .take_while(|_| {
                match exchange.receive(&request(false, true, ttt), &[], &DISCOVERY, &Directory(1)) {
                    Ok(reply) => {
                        assert!(reply.data.is_empty() && !reply.header.continues);
                        ttt = reply.header.ttt;
                        true
                    }
                    Err(refusal) => {
                        assert_eq!(refusal.reason, RejectReason::ProtocolError);
                        false
                    }
                }
            })
            .count();
        assert_eq!(answered, 64);
    }

    #[test]
    fn a_flood_of_send_targets_is_cut_off() {
        let text = "SendTargets=All\0".repeat(1000);
        let mut exchange = TextExchange::default();
        let context = TextContext {
            peer_max_recv_data_segment_length: 1 << 24,
            ..DISCOVERY
        };
        let refused = exchange.receive(
            &request(true, false, RESERVED_TAG),
            text.as_bytes(),
            &context,
            &Directory(9),
        );
        assert_eq!(refused.unwrap_err().why, "SendTargets repeated");
    }

    proptest! {
        #[test]
        fn a_long_answer_arrives_whole(targets in 0usize..300, max in 512u32..5000, cut in 0usize..16) {
            let context = TextContext { peer_max_recv_data_segment_length: max, ..DISCOVERY };
            let mut exchange = TextExchange::default();
            let (head, tail) = b"SendTargets=All\0".split_at(cut);
            let reply = exchange.receive(&request(false, true, RESERVED_TAG), head, &context, &Directory(targets)).unwrap();
            let mut reply = exchange.receive(&request(true, false, reply.header.ttt), tail, &context, &Directory(targets)).unwrap();
            let mut text = reply.data.clone();
            while !reply.header.is_final {
                prop_assert!(reply.header.continues);
                prop_assert!(reply.data.len() as u32 == max);
                reply = exchange.receive(&request(true, false, reply.header.ttt), &[], &context, &Directory(targets)).unwrap();
                text.extend_from_slice(&reply.data);
            }
            let expected: String = (0..targets).map(shown).collect();
            prop_assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }
}
