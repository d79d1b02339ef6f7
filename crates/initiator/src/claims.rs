//! Exclusive use of the adapter's devices, by a pool or a logical unit. Two users of one disk would
//! destroy each other's data. A file has a lock against this; a device has a claim.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Devices in use, by name, each with its user.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims(Arc<Mutex<BTreeMap<String, String>>>);

/// Exclusive use of a device, which ends on drop.
#[derive(Debug)]
pub(super) struct Claim {
    name: String,
    claims: Claims,
}

impl Claims {
    /// Claims a device for `user`, a noun phrase such as `a pool`.
    ///
    /// # Errors
    /// The device is in use already; the error names the user.
    pub(super) fn claim(&self, name: &str, user: &str) -> Result<Claim, String> {
        let mut held = self.lock();
        if let Some(user) = held.get(name) {
            return Err(user.clone());
        }
        held.insert(name.to_owned(), user.to_owned());
        Ok(Claim {
            name: name.to_owned(),
            claims: self.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        // Every change is one insertion or removal, so a panic leaves no half-made change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_used_by_one_at_a_time() {
        let claims = Claims::default();
        let first = claims.claim("naa.1", "a pool").expect("it is free");
        claims.claim("naa.2", "lu vm1").expect("it is another one");
        let user = claims.claim("naa.1", "lu vm1").expect_err("it is used");
        assert_eq!(user, "a pool");
        drop(first);
        claims.claim("naa.1", "lu vm1").expect("it is free again");
    }
}
