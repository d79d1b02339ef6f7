//! Answer of an iSNS server: a status code, then attributes (RFC 4171 §5.5, §5.7).

use core::net::SocketAddr;
use std::fmt;

use super::DecodeError;
use super::attribute::{Attributes, Tag};
use super::pdu::Message;
use super::request::Registration;

/// Status code (RFC 4171 §5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    /// The request was carried out.
    pub const SUCCESSFUL: Self = Self(0);
    /// The server does not know the source of the request.
    pub const SOURCE_UNKNOWN: Self = Self(6);
    /// The source may not make this request.
    pub const SOURCE_UNAUTHORIZED: Self = Self(8);
    /// No entry matches, or none that the source may see.
    pub const NO_SUCH_ENTRY: Self = Self(9);

    fn meaning(self) -> &'static str {
        match self.0 {
            0 => "successful",
            1 => "unknown error",
            2 => "message format error",
            3 => "invalid registration",
            5 => "invalid query",
            6 => "source unknown",
            7 => "source absent",
            8 => "source unauthorized",
            9 => "no such entry",
            10 => "version not supported",
            11 => "internal error",
            12 => "busy",
            13 => "option not understood",
            14 => "invalid update",
            15 => "message not supported",
            16 => "SCN event rejected",
            17 => "SCN registration rejected",
            18 => "attribute not implemented",
            21 => "ESI not available",
            22 => "invalid deregistration",
            23 => "registration feature not supported",
            _ => "reserved status",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (status {})", self.meaning(), self.0)
    }
}

/// Response that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status of the request.
    pub status: Status,
    /// Registration Period that the server keeps, in seconds.
    pub period_s: Option<u32>,
    /// iSCSI names among the attributes.
    pub nodes: Vec<String>,
    /// Portals among the attributes.
    pub portals: Vec<SocketAddr>,
}

impl Response {
    /// Reads the response in `message`. Attributes that this client does not use are skipped.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn decode(message: &Message) -> Result<Self, DecodeError> {
        let (status, attributes) = message
            .payload
            .split_first_chunk()
            .ok_or(DecodeError::NoStatus)?;
        let mut response = Self {
            status: Status(u32::from_be_bytes(*status)),
            period_s: None,
            nodes: Vec::new(),
            portals: Vec::new(),
        };
        if response.status != Status::SUCCESSFUL {
            // The attributes after a refusal repeat the request, or there are none.
            return Ok(response);
        }
        let mut address = None;
        for attribute in Attributes::new(attributes) {
            let attribute = attribute?;
            // An attribute without a value is one for which the server has nothing.
            if attribute.value.is_empty() {
                continue;
            }
            match attribute.tag {
                Tag::REGISTRATION_PERIOD => response.period_s = Some(attribute.number()?),
                Tag::ISCSI_NAME => response.nodes.push(attribute.text()?.to_owned()),
                Tag::PORTAL_IP_ADDRESS => address = Some(attribute.address()?),
                Tag::PORTAL_PORT => {
                    // The bits above mean UDP.
                    if let (Some(ip), Ok(port)) =
                        (address.take(), u16::try_from(attribute.number()?))
                    {
                        response.portals.push(SocketAddr::new(ip, port));
                    }
                }
                _ => {}
            }
        }
        Ok(response)
    }

    /// Reports whether the server has every node and portal of `registration`.
    pub fn holds(&self, registration: &Registration) -> bool {
        let nodes = &registration.nodes;
        nodes.iter().all(|node| self.nodes.contains(&node.name))
            && registration
                .portals
                .iter()
                .all(|portal| self.portals.contains(portal))
    }
}
