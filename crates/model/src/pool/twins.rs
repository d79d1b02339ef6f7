//! Devices that share an identity, as an administrator sees them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::date::utc;
use crate::quantity::format_size;

/// A group of files and devices that carry the label of one leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TwinsView {
    /// Number of the leaf.
    pub leaf: String,
    /// Relation of the devices to each other, as a sentence without a full stop.
    pub standing: String,
    /// Devices of the group, with their contents.
    pub devices: Vec<TwinView>,
}

/// A file or device that shares its identity with others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TwinView {
    /// Path of the device.
    #[schema(value_type = String)]
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Generation of the pool's configuration on the device.
    pub generation: u64,
    /// Number of the newest checkpoint on the device. `None` means a spare or cache, which has
    /// none.
    pub checkpoint: Option<u64>,
    /// Time of the newest checkpoint, in seconds since 1970.
    pub checkpoint_s: Option<u64>,
    /// Whether the pool was exported.
    pub is_exported: bool,
    /// Host that had the pool last.
    pub host: String,
    /// Whether the device is the newest of the group.
    pub is_newest: bool,
}

impl TwinsView {
    /// Describes the twins and their relation, as a sentence without a full stop.
    pub fn told(&self) -> String {
        let paths = self.devices.iter().map(|on| on.path.display().to_string());
        let paths: Vec<String> = paths.collect();
        format!(
            "{} have one identity (device {}): one is a copy of another; {}",
            paths.join(" and "),
            self.leaf,
            self.standing
        )
    }

    /// Describes the twins, with a line for the contents of each.
    pub fn told_with_holdings(&self) -> String {
        let lines = self.devices.iter().map(|on| {
            let path = on.path.display();
            format!("\n  {path}: {}", on.holds())
        });
        self.told() + &lines.collect::<String>()
    }

    /// Returns the device to name in an example.
    pub fn example(&self) -> Option<&Path> {
        let newest = self.devices.iter().find(|on| on.is_newest);
        Some(&newest.or(self.devices.first())?.path)
    }
}

impl TwinView {
    /// Returns a few words about the contents of the device.
    pub fn holds(&self) -> String {
        let machine = self.host.split('/').next().unwrap_or_default();
        let state = match self.is_exported {
            true => "exported".to_owned(),
            false => format!("in use by {machine}"),
        };
        let checkpoint = match (self.checkpoint, self.checkpoint_s) {
            (Some(number), Some(time_s)) => format!("checkpoint {number} of {}", utc(time_s)),
            _ => "no checkpoints".to_owned(),
        };
        let newest = if self.is_newest { ", the newest" } else { "" };
        format!(
            "{checkpoint}, configuration {}, {state}, {}{newest}",
            self.generation,
            format_size(self.size)
        )
    }
}
