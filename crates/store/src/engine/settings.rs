//! Settings of a pool that administrators change: its properties, and the format features it uses.

use super::features::Feature;
use super::properties::PoolProperty;
use super::state::Pool;

impl Pool {
    /// Sets a property, or resets it to its default. [`Pool::sync`] tells when the labels have it.
    pub fn set_property(&mut self, property: PoolProperty, is_on: Option<bool>) {
        let properties = &mut self.config.properties;
        let is_changed = match is_on {
            Some(is_on) => properties.set(property, is_on),
            None => properties.unset(property),
        };
        if is_changed {
            self.heed_autotrim();
            self.shape_changed();
        }
    }

    /// Enables all features that this program knows. [`Pool::sync`] tells when the labels say so.
    pub fn enable_features(&mut self) {
        if self.config.features.enable_all() {
            self.shape_changed();
        }
    }

    /// Uses a feature from now on, even if it is not enabled.
    pub(super) fn require_feature(&mut self, feature: Feature) {
        self.config.features.require(feature);
    }

    /// Begins to use an enabled feature. Returns whether the labels have to say so first.
    pub(super) fn activate_feature(&mut self, feature: Feature) -> bool {
        self.config.features.activate(feature)
    }

    /// Begins or ends the use of a feature. The labels will say so.
    pub(super) fn set_feature(&mut self, feature: Feature, is_used: bool) {
        let features = &mut self.config.features;
        let is_changed = match is_used {
            true => features.activate(feature),
            false => features.deactivate(feature),
        };
        if is_changed {
            self.config_changed();
        }
    }
}
