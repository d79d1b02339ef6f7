//! Random numbers from the kernel, for CHAP challenges and names of sessions.

use iscsi::chap::Entropy;
use iscsi::pdu::Isid;

/// Random numbers from the kernel.
#[derive(Debug)]
pub struct KernelEntropy;

impl Entropy for KernelEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        // Without random numbers no challenge is safe. A failed login is better than a predictable
        // one.
        getrandom::fill(bytes).expect("the kernel has random numbers");
    }
}

/// Returns an ISID of the random kind (RFC 7143 §11.12.5, type 10b). With it, two programs under
/// one initiator name do not end each other's sessions.
pub fn random_isid(entropy: &mut dyn Entropy) -> Isid {
    let mut isid = [0x80, 0, 0, 0, 0, 0];
    entropy.fill(&mut isid[1..]);
    Isid(isid)
}
