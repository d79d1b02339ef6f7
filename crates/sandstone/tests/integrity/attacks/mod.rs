//! Attacks of the threat model.

pub(super) mod attack_10_exhaustion;
pub(super) mod attack_3_stalled_logins;
pub(super) mod attack_7_copy_outside_the_view;
pub(super) mod attack_9_lun_used_again;
