//! An initiator's query of an iSNS server for targets and their addresses (RFC 4171 §5.6.5.2).

use core::net::{IpAddr, SocketAddr};

use super::attribute::{AttributeWriter, Attributes, Tag};
use super::pdu::{Flags, Function, Message};
use super::{DecodeError, Status};

/// Entity Protocol: iSCSI (§6.2.2).
const PROTOCOL_ISCSI: u32 = 2;
/// iSCSI Node Type (§6.4.2).
const NODE_TYPE_TARGET: u32 = 1;
const NODE_TYPE_INITIATOR: u32 = 2;
/// Registration period in seconds. A visitor is forgotten soon, should its deregistration not
/// arrive.
const VISIT_S: u32 = 300;

/// Target that a server knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundTarget {
    /// iSCSI name of the target.
    pub name: String,
    /// Portals that lead to the target, with their portal group tags.
    pub portals: Vec<(SocketAddr, u16)>,
}

/// Source of the queries of one initiator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visitor {
    /// iSCSI name of the initiator: the Source Attribute of all messages, and the entity's name.
    pub name: String,
    /// Portal from which the initiator asks. Servers take no entity without a portal.
    pub portal: SocketAddr,
}

impl Visitor {
    /// Builds a DevAttrQry for all targets that this initiator may see, with their portal groups.
    pub fn targets(&self, transaction_id: u16) -> Message {
        let mut attributes = AttributeWriter::default();
        attributes
            .text(Tag::ISCSI_NAME, &self.name)
            .number(Tag::ISCSI_NODE_TYPE, NODE_TYPE_TARGET)
            .empty(Tag::DELIMITER)
            .empty(Tag::ISCSI_NAME)
            .empty(Tag::PG_ISCSI_NAME)
            .empty(Tag::PG_PORTAL_IP_ADDRESS)
            .empty(Tag::PG_PORTAL_PORT)
            .empty(Tag::PG_TAG);
        message(Function::DEV_ATTR_QRY, transaction_id, attributes)
    }

    /// Builds a DevAttrReg of this initiator, because many servers answer only clients that they
    /// know.
    pub fn register(&self, transaction_id: u16) -> Message {
        let mut attributes = AttributeWriter::default();
        attributes
            .text(Tag::ISCSI_NAME, &self.name)
            .text(Tag::ENTITY_IDENTIFIER, &self.name)
            .empty(Tag::DELIMITER)
            .text(Tag::ENTITY_IDENTIFIER, &self.name)
            .number(Tag::ENTITY_PROTOCOL, PROTOCOL_ISCSI)
            .number(Tag::REGISTRATION_PERIOD, VISIT_S)
            .portal(Tag::PORTAL_IP_ADDRESS, Tag::PORTAL_PORT, self.portal)
            .text(Tag::ISCSI_NAME, &self.name)
            .number(Tag::ISCSI_NODE_TYPE, NODE_TYPE_INITIATOR);
        message(Function::DEV_ATTR_REG, transaction_id, attributes)
    }

    /// Builds a DevDereg of the registration of [`Self::register`].
    pub fn deregister(&self, transaction_id: u16) -> Message {
        let mut attributes = AttributeWriter::default();
        attributes
            .text(Tag::ISCSI_NAME, &self.name)
            .empty(Tag::DELIMITER)
            .text(Tag::ENTITY_IDENTIFIER, &self.name);
        message(Function::DEV_DEREG, transaction_id, attributes)
    }
}

fn message(function: Function, transaction_id: u16, attributes: AttributeWriter) -> Message {
    Message {
        function,
        flags: Flags::CLIENT,
        transaction_id,
        payload: attributes.finish(),
    }
}

/// Reads the answer to [`Visitor::targets`]: the status, and the targets in order of their first
/// mention. A portal group without a tag leads nowhere (§3.4).
///
/// # Errors
/// The answer is malformed.
pub fn found_targets(answer: &Message) -> Result<(Status, Vec<FoundTarget>), DecodeError> {
    let (status, attributes) = answer
        .payload
        .split_first_chunk()
        .ok_or(DecodeError::NoStatus)?;
    let status = Status(u32::from_be_bytes(*status));
    let mut found = Vec::new();
    if status != Status::SUCCESSFUL {
        // The attributes after a refusal repeat the request, or there are none.
        return Ok((status, found));
    }
    let mut group = Group::default();
    let mut in_key = true;
    for attribute in Attributes::new(attributes) {
        let attribute = attribute?;
        if attribute.tag == Tag::DELIMITER {
            in_key = false;
        }
        // The message key comes back first. An attribute without a value means that the server has
        // nothing for it.
        if in_key || attribute.value.is_empty() {
            continue;
        }
        match attribute.tag {
            Tag::ISCSI_NAME => drop(entry(&mut found, attribute.text()?)),
            Tag::PG_ISCSI_NAME => {
                group = Group {
                    name: Some(attribute.text()?),
                    ..Group::default()
                };
            }
            Tag::PG_PORTAL_IP_ADDRESS => group.address = Some(attribute.address()?),
            // The bits above mean UDP.
            Tag::PG_PORTAL_PORT => group.port = u16::try_from(attribute.number()?).ok(),
            Tag::PG_TAG => {
                let tag = u16::try_from(attribute.number()?);
                let tag = tag.map_err(|_| DecodeError::Value(Tag::PG_TAG))?;
                group.end(tag, &mut found);
            }
            _ => {}
        }
    }
    Ok((status, found))
}

/// Attributes of a portal group, as far as they were read.
#[derive(Default)]
struct Group<'a> {
    name: Option<&'a str>,
    address: Option<IpAddr>,
    port: Option<u16>,
}

impl Group<'_> {
    fn end(&mut self, tag: u16, found: &mut Vec<FoundTarget>) {
        let (address, port) = (self.address.take(), self.port.take());
        if let (Some(name), Some(address), Some(port)) = (self.name, address, port) {
            let portal = (SocketAddr::new(address, port), tag);
            let target = entry(found, name);
            if !target.portals.contains(&portal) {
                target.portals.push(portal);
            }
        }
    }
}

fn entry<'a>(found: &'a mut Vec<FoundTarget>, name: &str) -> &'a mut FoundTarget {
    let at = found.iter().position(|target| target.name == name);
    let at = at.unwrap_or_else(|| {
        found.push(FoundTarget {
            name: name.to_owned(),
            portals: Vec::new(),
        });
        found.len() - 1
    });
    &mut found[at]
}
