//! The resume token: where an interrupted receive goes on, as a text that an administrator carries
//! to the sender.

use std::fmt;
use std::str::FromStr;

use twox_hash::XxHash3_128;

/// State of a receiver that wants the rest of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeToken {
    /// Guid of the snapshot.
    pub snapshot: u64,
    /// Guid of the snapshot relative to which blocks are sent.
    pub from: Option<u64>,
    /// Number below which all blocks are received.
    pub position: u64,
    /// Whether properties were sent too.
    pub with_properties: bool,
    /// Number of folders above the volume whose inheritable properties were sent with it.
    pub folders: u32,
}

/// Version of the token, with which its text begins.
const VERSION: &str = "1";

impl ResumeToken {
    fn check(body: &str) -> u32 {
        XxHash3_128::oneshot(body.as_bytes()) as u32
    }
}

/// Writes `1-SNAPSHOT-FROM-POSITION-FLAGS-FOLDERS-CHECK`, in hexadecimal. A missing FROM leaves its
/// field empty. A missing FOLDERS omits even its hyphen, as in the first tokens.
impl fmt::Display for ResumeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self
            .from
            .map_or_else(String::new, |from| format!("{from:x}"));
        let flags = u8::from(self.with_properties);
        let (snapshot, position) = (self.snapshot, self.position);
        let mut body = format!("{VERSION}-{snapshot:x}-{from}-{position:x}-{flags:x}");
        if self.folders > 0 {
            body.push_str(&format!("-{:x}", self.folders));
        }
        write!(f, "{body}-{:08x}", Self::check(&body))
    }
}

impl FromStr for ResumeToken {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let broken = || format!("'{text}' is not a token of an interrupted receive");
        let (body, check) = text.rsplit_once('-').ok_or_else(broken)?;
        let check = u32::from_str_radix(check, 16).map_err(|_| broken())?;
        let mut parts = body.split('-');
        let number = |part: Option<&str>| u64::from_str_radix(part?, 16).ok();
        if parts.next() != Some(VERSION) || check != Self::check(body) {
            return Err(broken());
        }
        let snapshot = number(parts.next()).ok_or_else(broken)?;
        let from = match parts.next() {
            Some("") => None,
            from => Some(number(from).ok_or_else(broken)?),
        };
        let position = number(parts.next()).ok_or_else(broken)?;
        let flags = number(parts.next()).filter(|flags| *flags < 2);
        let with_properties = flags.ok_or_else(broken)? == 1;
        let folders = match parts.next() {
            None => 0,
            folders => number(folders)
                .and_then(|folders| u32::try_from(folders).ok())
                .ok_or_else(broken)?,
        };
        match parts.next() {
            None => Ok(Self {
                snapshot,
                from,
                position,
                with_properties,
                folders,
            }),
            Some(_) => Err(broken()),
        }
    }
}
