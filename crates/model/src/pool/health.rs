//! Health of a pool: whether an administrator must act, in one word for people, scripts and alerts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::status::{NO_ERRORS, PoolView};
use crate::health::Health;

/// Short summary of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolHealth {
    /// Name of the pool.
    pub name: String,
    /// State of the pool: ONLINE, DEGRADED, SUSPENDED or UNAVAIL.
    pub state: String,
    /// Health of the pool: whether an administrator must act.
    pub health: Health,
    /// Event and its meaning. `None` means that all is well.
    pub status: Option<String>,
    /// Step to take, if there is one.
    pub action: Option<String>,
    /// Data that was lost, in words.
    pub errors: String,
}

impl PoolView {
    /// Returns the pool's health: whether an administrator must act.
    pub fn health(&self) -> Health {
        let is_full = self.open_for_us.is_some() && !self.is_read_only && self.is_full;
        if self.state != "ONLINE" || self.errors != NO_ERRORS || is_full {
            return Health::Impaired;
        }
        match self.status {
            Some(_) => Health::Attention,
            None => Health::Healthy,
        }
    }

    /// Returns a summary of the pool.
    pub fn in_short(&self) -> PoolHealth {
        PoolHealth {
            health: self.health(),
            name: self.name.clone(),
            state: self.state.clone(),
            status: self.status.clone(),
            action: self.action.clone(),
            errors: self.errors.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well() -> PoolView {
        PoolView {
            state: "ONLINE".to_owned(),
            errors: NO_ERRORS.to_owned(),
            open_for_us: Some(1),
            ..PoolView::default()
        }
    }

    #[test]
    fn a_pool_is_healthy_only_where_nothing_at_all_is_to_be_said() {
        assert_eq!(well().health(), Health::Healthy);
        let filling = PoolView {
            status: Some("The pool is filling up.".to_owned()),
            ..well()
        };
        assert_eq!(filling.health(), Health::Attention);
        let read_only = PoolView {
            status: Some("The pool was imported to be read only.".to_owned()),
            is_read_only: true,
            is_full: true,
            ..well()
        };
        assert_eq!(read_only.health(), Health::Attention);
    }

    #[test]
    fn each_way_of_not_being_well_is_impaired() {
        let mut all = Vec::new();
        for state in ["DEGRADED", "SUSPENDED", "UNAVAIL", "FAULTED"] {
            let state = state.to_owned();
            all.push(PoolView { state, ..well() });
        }
        all.push(PoolView {
            errors: "1 read found no right copy of a block".to_owned(),
            ..well()
        });
        all.push(PoolView {
            is_full: true,
            ..well()
        });
        for pool in all {
            assert_eq!(pool.health(), Health::Impaired, "{pool:?}");
            let short = pool.in_short();
            assert_eq!(short.health.exit_code(), 4);
        }
    }
}
