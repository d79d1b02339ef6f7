//! Attributes: tag, length, value, padded to four bytes (RFC 4171 §5.4, §6).

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::DecodeError;

/// Subject of an attribute (RFC 4171 §6.1, figure "iSNS attributes").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub u32);

impl Tag {
    /// Delimiter between the message key and the operating attributes.
    pub const DELIMITER: Self = Self(0);
    /// Entity Identifier (EID): text.
    pub const ENTITY_IDENTIFIER: Self = Self(1);
    /// Entity Protocol: 2 is iSCSI.
    pub const ENTITY_PROTOCOL: Self = Self(2);
    /// Registration Period in seconds.
    pub const REGISTRATION_PERIOD: Self = Self(6);
    /// Portal IP Address: 16 bytes.
    pub const PORTAL_IP_ADDRESS: Self = Self(16);
    /// Portal TCP/UDP Port.
    pub const PORTAL_PORT: Self = Self(17);
    /// iSCSI Name: text.
    pub const ISCSI_NAME: Self = Self(32);
    /// iSCSI Node Type: 1 is a target.
    pub const ISCSI_NODE_TYPE: Self = Self(33);
    /// iSCSI Alias: text.
    pub const ISCSI_ALIAS: Self = Self(34);
    /// PG iSCSI Name: text.
    pub const PG_ISCSI_NAME: Self = Self(48);
    /// PG Portal IP Address: 16 bytes.
    pub const PG_PORTAL_IP_ADDRESS: Self = Self(49);
    /// PG Portal TCP/UDP Port.
    pub const PG_PORTAL_PORT: Self = Self(50);
    /// PG Tag. Without a value the portal does not lead to the node.
    pub const PG_TAG: Self = Self(51);
}

/// One attribute of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Tag of the attribute.
    pub tag: Tag,
    /// Value of the attribute, without padding.
    pub value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// Returns the value as a number of 32 bits.
    ///
    /// # Errors
    /// The value has another size.
    pub fn number(&self) -> Result<u32, DecodeError> {
        let bytes = self.value.try_into().map_err(|_| self.malformed())?;
        Ok(u32::from_be_bytes(bytes))
    }

    /// Returns the value as text, without the NUL bytes that end it.
    ///
    /// # Errors
    /// The value is not UTF-8, or has a NUL inside.
    pub fn text(&self) -> Result<&'a str, DecodeError> {
        let text = std::str::from_utf8(self.value).map_err(|_| self.malformed())?;
        let text = text.trim_end_matches('\0');
        if text.contains('\0') {
            return Err(self.malformed());
        }
        Ok(text)
    }

    /// Returns the value as an IP address. IPv4 is written as an IPv4-mapped IPv6 address (§6.3.1).
    ///
    /// # Errors
    /// The value has another size.
    pub fn address(&self) -> Result<IpAddr, DecodeError> {
        let bytes: [u8; 16] = self.value.try_into().map_err(|_| self.malformed())?;
        Ok(Ipv6Addr::from(bytes).to_canonical())
    }

    fn malformed(&self) -> DecodeError {
        DecodeError::Value(self.tag)
    }
}

/// Iterator over the attributes of a payload, one after another. It ends after the first error.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// Reads a payload, which for a response comes without its status code.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    fn split(&mut self) -> Option<Attribute<'a>> {
        let (head, rest) = self.rest.split_first_chunk::<8>()?;
        let [t0, t1, t2, t3, l0, l1, l2, l3] = *head;
        let len = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        // By the standard a length includes the padding, but some servers omit it. Both are
        // read.
        let padded = len.checked_next_multiple_of(4)?;
        let value = rest.get(..padded)?.get(..len)?;
        self.rest = &rest[padded..];
        Some(Attribute {
            tag: Tag(u32::from_be_bytes([t0, t1, t2, t3])),
            value,
        })
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        Some(self.split().ok_or_else(|| {
            self.rest = &[];
            DecodeError::Attribute
        }))
    }
}

/// Writes attributes.
#[derive(Clone, Debug, Default)]
pub(super) struct AttributeWriter {
    payload: Vec<u8>,
}

impl AttributeWriter {
    /// Adds a tag without a value. In a query this asks for the attribute. Elsewhere the tag gives
    /// the meaning.
    pub(super) fn empty(&mut self, tag: Tag) -> &mut Self {
        self.push(tag, &[])
    }

    /// Adds a number of 32 bits.
    pub(super) fn number(&mut self, tag: Tag, value: u32) -> &mut Self {
        self.push(tag, &value.to_be_bytes())
    }

    /// Adds text, ended by at least one NUL and padded with more (§5.4).
    pub(super) fn text(&mut self, tag: Tag, value: &str) -> &mut Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.resize((bytes.len() + 1).next_multiple_of(4), 0);
        self.push(tag, &bytes)
    }

    /// Adds an IP address and a TCP port, as two attributes.
    pub(super) fn portal(&mut self, ip: Tag, port: Tag, portal: SocketAddr) -> &mut Self {
        let address = match portal.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        self.push(ip, &address.octets())
            .number(port, portal.port().into())
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.payload
    }

    fn push(&mut self, tag: Tag, value: &[u8]) -> &mut Self {
        // Every value that a configuration can hold is far below 4 GiB.
        self.payload.extend_from_slice(&tag.0.to_be_bytes());
        self.payload
            .extend_from_slice(&(value.len() as u32).to_be_bytes());
        self.payload.extend_from_slice(value);
        self
    }
}
