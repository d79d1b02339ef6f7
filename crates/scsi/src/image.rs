//! Bytes of a unit's persistent state, which [`crate::Step::Save`] stores and a restart restores.
//!
//! The image is a header of 16 bytes (magic, version, generation) and sections of tag, length and
//! bytes. An unknown section is an error, not a loss: a program that does not know a kind of state
//! must not drop it silently. The caller adds a checksum and stores the image atomically.

use crate::alua::UnitAccess;
use crate::medium::readiness::SanitizeFailure;
use crate::mode_page::ModePages;
use crate::persistent_reservation::PersistentReservations;

/// Magic "SLU", and the version of the layout.
const MAGIC: [u8; 8] = *b"SLUIMG\0\x01";
/// Saved mode pages.
const SECTION_MODE_PAGES: u16 = 1;
/// Access states that bound all initiators, whichever initiator set them. They are no longer read:
/// the administrator's states hold instead.
const SECTION_SHARED_ACCESS_STATES: u16 = 2;
/// Persistent reservations with APTPL.
const SECTION_RESERVATIONS: u16 = 3;
/// AUSE of a SANITIZE that has not ended, or that failed. The section is there only while there is
/// one.
const SECTION_SANITIZE: u16 = 4;
/// Asymmetric access states that initiators chose for themselves. The section is there only if an
/// initiator did.
const SECTION_ACCESS_CHOICES: u16 = 5;

/// Reasons to refuse an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// The image does not begin as one of this version does.
    NotAnImage,
    /// The image ends in the middle of a section.
    Truncated,
    /// The image holds a section that this version does not know.
    UnknownSection(u16),
    /// A section's bytes contradict themselves.
    Damaged(u16),
}

impl std::fmt::Display for RestoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotAnImage => f.write_str("it is not a logical unit image of a known version"),
            Self::Truncated => f.write_str("the logical unit image is cut short"),
            Self::UnknownSection(tag) => {
                write!(f, "the logical unit image holds the unknown section {tag}")
            }
            Self::Damaged(tag) => write!(f, "section {tag} of the logical unit image is damaged"),
        }
    }
}

impl std::error::Error for RestoreError {}

/// Returns the generation of an image: of two images of a unit, the newer one has the larger
/// number. Two commands may ask to save at once. The caller that stores images must never replace a
/// newer one by an older one.
pub fn generation(image: &[u8]) -> Option<u64> {
    let (magic, rest) = image.split_first_chunk::<8>()?;
    let (number, _) = rest.split_first_chunk::<8>()?;
    (*magic == MAGIC).then(|| u64::from_be_bytes(*number))
}

/// State that an image holds. The access states that initiators chose are taken over apart.
#[derive(Debug)]
pub(crate) struct Restored {
    /// Generation of the image.
    pub(crate) generation: u64,
    /// Mode parameters.
    pub(crate) mode: ModePages,
    /// Persistent reservations with APTPL.
    pub(crate) reservations: PersistentReservations,
    /// SANITIZE that failed or had not ended. The place at which it stopped is unknown, and so is
    /// the content of the blocks.
    pub(crate) sanitize_failed: Option<SanitizeFailure>,
}

/// Makes the image of this moment.
pub(crate) fn make(
    generation: u64,
    mode: &ModePages,
    reservations: &PersistentReservations,
    unfinished_sanitize: Option<SanitizeFailure>,
    access: &UnitAccess,
) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&generation.to_be_bytes());
    section(&mut out, SECTION_MODE_PAGES, &mode.to_bytes());
    section(&mut out, SECTION_RESERVATIONS, &reservations.to_bytes());
    if let Some(failure) = unfinished_sanitize {
        let ause = [u8::from(failure.allow_exit)];
        section(&mut out, SECTION_SANITIZE, &ause);
    }
    let choices = access.to_bytes();
    if !choices.is_empty() {
        section(&mut out, SECTION_ACCESS_CHOICES, &choices);
    }
    out
}

fn section(out: &mut Vec<u8>, tag: u16, bytes: &[u8]) {
    out.extend_from_slice(&tag.to_be_bytes());
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Returns the state in an image, and takes over the access states that initiators chose. `mode` is
/// what the image's mode pages change. All sections are checked before anything is taken over.
pub(crate) fn restore(
    image: &[u8],
    mode: &ModePages,
    access: &UnitAccess,
) -> Result<Restored, RestoreError> {
    let generation = generation(image).ok_or(RestoreError::NotAnImage)?;
    let mut mode = mode.clone();
    let mut access_choices: &[u8] = &[];
    let mut reservations = PersistentReservations::default();
    let mut sanitize_failed = None;
    let mut rest = &image[16..];
    while !rest.is_empty() {
        let (tag, body, after) = split_section(rest).ok_or(RestoreError::Truncated)?;
        match tag {
            SECTION_MODE_PAGES => {
                mode.restore(body).ok_or(RestoreError::Damaged(tag))?;
            }
            SECTION_SHARED_ACCESS_STATES => {}
            SECTION_ACCESS_CHOICES => access_choices = body,
            SECTION_RESERVATIONS => {
                reservations = PersistentReservations::from_bytes(body)
                    .map_err(|_| RestoreError::Damaged(tag))?;
            }
            SECTION_SANITIZE => {
                let &[ause @ 0..=1] = body else {
                    return Err(RestoreError::Damaged(tag));
                };
                sanitize_failed = Some(SanitizeFailure {
                    allow_exit: ause == 1,
                });
            }
            unknown => return Err(RestoreError::UnknownSection(unknown)),
        }
        rest = after;
    }
    access
        .restore(access_choices)
        .map_err(|_| RestoreError::Damaged(SECTION_ACCESS_CHOICES))?;
    Ok(Restored {
        generation,
        mode,
        reservations,
        sanitize_failed,
    })
}

fn split_section(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first_chunk::<2>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (body, after) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
    Some((u16::from_be_bytes(*tag), body, after))
}
