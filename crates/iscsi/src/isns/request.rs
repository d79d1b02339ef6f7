//! Requests of a target to an iSNS server: to register, to query, to deregister (RFC 4171 §5.6.5).

use core::net::SocketAddr;

use super::attribute::{AttributeWriter, Tag};
use super::pdu::{Flags, Function, Message};

/// Entity Protocol: iSCSI (§6.2.2).
const PROTOCOL_ISCSI: u32 = 2;
/// iSCSI Node Type: target (§6.4.2).
const NODE_TYPE_TARGET: u32 = 1;

/// Network entity as it is, or is to be, registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    /// Entity Identifier, unique at the server, 4 to 255 bytes.
    pub entity: String,
    /// Seconds of silence after which the server may forget the entity.
    pub period_s: u32,
    /// Every address at which a node is served, once each.
    pub portals: Vec<SocketAddr>,
    /// Targets of the entity.
    pub nodes: Vec<Node>,
}

/// Target of a network entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// iSCSI name of the target.
    pub name: String,
    /// Alias of the target, empty if it has none.
    pub alias: String,
    /// Portals and their portal group tags. Each portal is one of [`Registration::portals`].
    pub portal_groups: Vec<(SocketAddr, u16)>,
}

impl Registration {
    /// Reports whether there is nothing to register. A server refuses an entity without nodes and
    /// portals.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() || self.portals.is_empty()
    }

    /// Builds a DevAttrReg of everything (§5.6.5.1). `source` is the name of a node that the entity
    /// has or gets.
    ///
    /// With `replace`, the server first removes all it had under this entity. Otherwise it changes
    /// the entity and adds to it. Servers make a portal group with tag 1 of every pair of portal
    /// and node that no attribute mentions (§3.4). So the pairs that do not belong together are
    /// listed as well.
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

    /// Builds a DevAttrQry for the nodes and portals that the server has under this entity
    /// (§5.6.5.2). The query is also the sign of life that begins the registration period anew
    /// (§6.2.6).
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

    /// Builds a DevDereg of the whole entity (§5.6.5.4).
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

    /// Builds a DevDereg of the nodes and portals that `after` no longer has, or returns `None` if
    /// it has them all.
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
