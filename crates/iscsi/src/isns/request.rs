//! What a target asks of an iSNS server: to register, to look, to deregister (RFC 4171 §5.6.5).

use core::net::SocketAddr;

use super::attribute::{AttributeWriter, Tag};
use super::pdu::{Flags, Function, Message};

/// Entity Protocol: iSCSI (§6.2.2).
const PROTOCOL_ISCSI: u32 = 2;
/// iSCSI Node Type: target (§6.4.2).
const NODE_TYPE_TARGET: u32 = 1;

/// A network entity as it is, or is to be, registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    /// Entity Identifier, unique at the server, 4 to 255 bytes.
    pub entity: String,
    /// After how many seconds without a word from us the server may forget the entity.
    pub period_s: u32,
    /// Every address that a node is served at, once each.
    pub portals: Vec<SocketAddr>,
    /// The targets.
    pub nodes: Vec<Node>,
}

/// A target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its iSCSI name.
    pub name: String,
    /// Its alias; empty where it has none.
    pub alias: String,
    /// Portal and portal group tag. Each portal is one of [`Registration::portals`].
    pub portal_groups: Vec<(SocketAddr, u16)>,
}

impl Registration {
    /// Whether there is nothing to register: a server refuses an entity without nodes and portals.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() || self.portals.is_empty()
    }

    /// DevAttrReg of everything (§5.6.5.1). With `replace`, what the server had under this entity goes
    /// first; else it is changed and added to. `source` is the name of a node that the entity has or
    /// gets.
    ///
    /// Servers make a portal group with tag 1 of every pair of portal and node that nothing is said
    /// about (§3.4), so the pairs that do not belong together are told as well.
    pub fn register(&self, source: &str, replace: bool, transaction_id: u16) -> Message {
        let mut attributes = AttributeWriter::default();
        attributes
            .text(Tag::ISCSI_NAME, source)
            .text(Tag::ENTITY_IDENTIFIER, &self.entity)
            .empty(Tag::DELIMITER)
            .text(Tag::ENTITY_IDENTIFIER, &self.entity)
            .number(Tag::ENTITY_PROTOCOL, PROTOCOL_ISCSI)
            .number(Tag::REGISTRATION_PERIOD, self.period_s);
        for &portal in &self.portals {
            attributes.portal(Tag::PORTAL_IP_ADDRESS, Tag::PORTAL_PORT, portal);
        }
        for node in &self.nodes {
            attributes
                .text(Tag::ISCSI_NAME, &node.name)
                .number(Tag::ISCSI_NODE_TYPE, NODE_TYPE_TARGET);
            if !node.alias.is_empty() {
                attributes.text(Tag::ISCSI_ALIAS, &node.alias);
            }
        }
        for node in &self.nodes {
            for &portal in &self.portals {
                attributes.text(Tag::PG_ISCSI_NAME, &node.name).portal(
                    Tag::PG_PORTAL_IP_ADDRESS,
                    Tag::PG_PORTAL_PORT,
                    portal,
                );
                let group = node.portal_groups.iter().find(|(at, _)| *at == portal);
                match group {
                    Some(&(_, tag)) => attributes.number(Tag::PG_TAG, tag.into()),
                    None => attributes.empty(Tag::PG_TAG),
                };
            }
        }
        let flags = if replace {
            Flags::CLIENT.and(Flags::REPLACE)
        } else {
            Flags::CLIENT
        };
        request(Function::DEV_ATTR_REG, flags, transaction_id, attributes)
    }

    /// DevAttrQry: which nodes and portals has the server under this entity (§5.6.5.2)? Asking is also
    /// the sign of life that begins the registration period anew (§6.2.6).
    pub fn query(&self, source: &str, transaction_id: u16) -> Message {
        let mut attributes = AttributeWriter::default();
        attributes
            .text(Tag::ISCSI_NAME, source)
            .text(Tag::ENTITY_IDENTIFIER, &self.entity)
            .empty(Tag::DELIMITER)
            .empty(Tag::ISCSI_NAME)
            .empty(Tag::PORTAL_IP_ADDRESS)
            .empty(Tag::PORTAL_PORT);
        request(
            Function::DEV_ATTR_QRY,
            Flags::CLIENT,
            transaction_id,
            attributes,
        )
    }

    /// DevDereg of the whole entity (§5.6.5.4).
    pub fn deregister(&self, source: &str, transaction_id: u16) -> Message {
        let mut attributes = AttributeWriter::default();
        attributes
            .text(Tag::ISCSI_NAME, source)
            .empty(Tag::DELIMITER)
            .text(Tag::ENTITY_IDENTIFIER, &self.entity);
        request(
            Function::DEV_DEREG,
            Flags::CLIENT,
            transaction_id,
            attributes,
        )
    }

    /// DevDereg of the nodes and portals that `after` no longer has; `None` where it has them all.
    pub fn deregister_gone(
        &self,
        after: &Self,
        source: &str,
        transaction_id: u16,
    ) -> Option<Message> {
        let stays = |name: &str| after.nodes.iter().any(|node| node.name == name);
        let mut gone = false;
        let mut attributes = AttributeWriter::default();
        attributes
            .text(Tag::ISCSI_NAME, source)
            .empty(Tag::DELIMITER);
        for node in self.nodes.iter().filter(|node| !stays(&node.name)) {
            attributes.text(Tag::ISCSI_NAME, &node.name);
            gone = true;
        }
        for &portal in &self.portals {
            if !after.portals.contains(&portal) {
                attributes.portal(Tag::PORTAL_IP_ADDRESS, Tag::PORTAL_PORT, portal);
                gone = true;
            }
        }
        gone.then(|| {
            request(
                Function::DEV_DEREG,
                Flags::CLIENT,
                transaction_id,
                attributes,
            )
        })
    }
}

fn request(
    function: Function,
    flags: Flags,
    transaction_id: u16,
    attributes: AttributeWriter,
) -> Message {
    Message {
        function,
        flags,
        transaction_id,
        payload: attributes.finish(),
    }
}
