//! `pool upgrade`: lists a pool's format features, and enables those that this program knows. The
//! features lie in the pool's labels ([`store::engine::features`]), so that other programs learn
//! what they must understand.

use store::engine::features::{Feature, FeatureState, Features, Need};

use crate::registry::Pools;
use model::pool::properties::FeatureView;
use model::{Error, ErrorKind};

/// Returns all features that this program knows, and further features of the pool.
pub(crate) fn views(features: &Features) -> Vec<FeatureView> {
    let known = Feature::ALL.into_iter().map(|feature| FeatureView {
        name: feature.name().to_owned(),
        state: match features.state(feature) {
            FeatureState::Disabled => "disabled",
            FeatureState::Enabled => "enabled",
            FeatureState::Active => "active",
        }
        .to_owned(),
        needed_to: match feature.need() {
            Need::Read => "read",
            Need::Write => "write",
        }
        .to_owned(),
        description: feature.description().to_owned(),
    });
    let unknown = |state: &'static str| {
        move |name: &str| FeatureView {
            name: name.to_owned(),
            state: state.to_owned(),
            needed_to: String::new(),
            description: "a feature of a newer program".to_owned(),
        }
    };
    known
        .chain(features.unknown_enabled().map(unknown("enabled")))
        .chain(features.unknown_to_write().map(unknown("active")))
        .collect()
}

impl Pools {
    /// Enables all format features that this program knows, and returns once the labels say so.
    ///
    /// # Errors
    /// The pool is not open, or takes no changes.
    pub fn upgrade(&self, name: &str) -> Result<(), Error> {
        let _changing = self.changing();
        let pool = self.get(name)?;
        pool.require_writable()?;
        let enabled = pool.host.handle(|hands| hands.pool.enable_features());
        let synced = enabled.and_then(|()| pool.host.sync());
        synced.map_err(|error| {
            Error::new(
                ErrorKind::Refused,
                format!("pool {name} cannot be upgraded: {error}"),
                format!("see `sandstone pool status {name}`"),
            )
            .not_changed("its features may be enabled, and may be lost when the daemon ends")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_pool_lacks_no_feature_and_an_old_one_says_which() {
        let states = |features: &Features| -> Vec<String> {
            views(features).into_iter().map(|of| of.state).collect()
        };
        assert!(!states(&Features::of_new_pool()).contains(&"disabled".to_owned()));
        let old = states(&Features::default());
        assert_eq!(old, vec!["disabled"; Feature::ALL.len()]);
    }
}
