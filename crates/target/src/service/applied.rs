//! The state in force beside the directory: units and portals, and reasons why some are missing.

use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use crate::stand_in::StandIn;
use model::config::Config;
use model::data_plane::{ApplyError, PortalStatus};
use unit::unit::Unit;

/// State in force beside the directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Applied {
    pub config: Arc<Config>,
    pub units: BTreeMap<String, Arc<Unit>>,
    /// Units that stand in for those that are not served.
    pub stand_ins: BTreeMap<String, StandIn>,
    /// Reasons why units of the configuration are not served.
    pub faults: BTreeMap<String, ApplyError>,
    pub listeners: HashMap<SocketAddr, Arc<TcpListener>>,
    /// Reasons why portals of the configuration are not bound.
    pub unbound: BTreeMap<SocketAddr, String>,
}

impl Applied {
    /// Returns the portals as they are now, also those that could not be bound.
    pub(crate) fn portals(&self) -> Vec<PortalStatus> {
        let mut portals = Vec::new();
        for target in &self.config.targets {
            for group in &target.portal_groups {
                for address in &group.portals {
                    let bound = self
                        .listeners
                        .get(address)
                        .and_then(|listener| listener.local_addr().ok());
                    portals.push(PortalStatus {
                        address: bound.unwrap_or(*address),
                        target: target.iqn.clone(),
                        tag: group.tag,
                        error: self.unbound.get(address).cloned(),
                    });
                }
            }
        }
        portals
    }
}
