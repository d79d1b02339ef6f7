//! Limits of volumes and rules of names, which hold in the catalogue and in streams.

/// Smallest volblocksize, in bytes.
pub const MIN_BLOCK_SIZE: u32 = 4 << 10;
/// Largest volblocksize, in bytes.
pub const MAX_BLOCK_SIZE: u32 = 128 << 10;
/// Largest volume, in bytes.
pub const MAX_VOLUME_SIZE: u64 = 1 << 60;
/// Longest name of a dataset, in bytes.
pub const MAX_NAME: usize = 255;

/// Says what is wrong with one part of a name, or with the name of a snapshot.
pub fn component_fault(component: &str) -> Option<String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.: ".contains(c);
    // The part may come from anywhere, and is shown to people.
    let shown = component.escape_debug();
    if component.is_empty() {
        return Some("a part of the name is empty".to_owned());
    }
    if component.len() > MAX_NAME {
        return Some(format!("'{shown}' is longer than {MAX_NAME} bytes"));
    }
    if matches!(component, "." | "..") {
        return Some(format!("'{shown}' is not allowed as part of a name"));
    }
    if component.starts_with(' ') || component.ends_with(' ') {
        return Some(format!("'{shown}' begins or ends with a space"));
    }
    let wrong = component.chars().find(|c| !is_allowed(*c))?;
    let wrong = wrong.escape_debug();
    Some(format!("'{shown}' contains the character '{wrong}'"))
}
