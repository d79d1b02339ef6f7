//! Requests of an administrator to a pool: volumes, snapshots and their properties.

use store::catalog::request::{
    CloneSnapshot, Destroy, Rename, Resize, Rollback, SetProperties, TakeSnapshots, Texts,
};
use store::engine::{Plan, RequestId};

use super::setup::folder_name;
use super::{GROUP, PoolStage, PoolSubject};
use crate::operation::{Admin, BLOCK_SIZE, Named, VolumeId};
use crate::subject::{Answer, Outcome, VolumeSpec};

impl PoolSubject {
    pub(super) fn administer(&mut self, tag: u64, admin: &Admin) {
        let stage = std::mem::replace(&mut self.stage, PoolStage::Refused(String::new()));
        let PoolStage::Open(mut pool) = stage else {
            self.stage = stage;
            return self.fail(tag, "the pool is not open");
        };
        let id = RequestId(tag);
        if let Some(plan) = self.plan_of(admin) {
            self.plan(&mut pool, id, plan);
            self.stage = PoolStage::Open(pool);
            return;
        }
        match admin {
            Admin::Checkpoint => pool.sync(id, self.now_us),
            other => {
                match other {
                    Admin::Reshape(reshape) => self.reshape(&mut pool, *reshape),
                    _ => pool.scrub(self.now_us),
                }
                let outcome = Ok(Outcome::Done);
                self.answers.push(Answer { tag, outcome });
            }
        }
        self.stage = PoolStage::Open(pool);
    }

    /// Returns the plan of an operation that changes the catalogue.
    fn plan_of(&self, admin: &Admin) -> Option<Plan> {
        Some(match admin {
            Admin::Create { volume, blocks } => {
                let request = self.setup.volume(VolumeSpec {
                    id: *volume,
                    blocks: *blocks,
                    unit: 1,
                    is_thick: false,
                });
                Box::new(move |catalog, stamp| catalog.plan_create_volume(&request, stamp))
            }
            Admin::Snapshot { of } => {
                let name = |(volume, snapshot): &(VolumeId, VolumeId)| {
                    let volume = self.name(*volume);
                    match snapshot.group() {
                        Some((group, _)) => format!("{volume}@{GROUP}{group}"),
                        None => format!("{volume}@s{}", snapshot.0),
                    }
                };
                let request = TakeSnapshots {
                    names: of.iter().map(name).collect(),
                    ..TakeSnapshots::default()
                };
                Box::new(move |catalog, stamp| catalog.plan_snapshot(&request, stamp))
            }
            Admin::Clone { snapshot, volume } => {
                let request = CloneSnapshot {
                    snapshot: self.name(*snapshot),
                    name: self.setup.name_of(*volume),
                    with_parents: self.setup.with_folders,
                    ..CloneSnapshot::default()
                };
                Box::new(move |catalog, stamp| catalog.plan_clone(&request, stamp))
            }
            Admin::Rollback { snapshot, .. } => {
                let request = Rollback {
                    snapshot: self.name(*snapshot),
                    ..Rollback::default()
                };
                Box::new(move |catalog, _| catalog.plan_rollback(&request))
            }
            Admin::Resize { volume, blocks } => {
                let request = Resize {
                    name: self.name(*volume),
                    size: blocks * BLOCK_SIZE as u64,
                    may_shrink: true,
                };
                Box::new(move |catalog, _| catalog.plan_resize(&request))
            }
            Admin::Destroy { volume } => {
                let request = Destroy {
                    names: vec![self.name(*volume)],
                    ..Destroy::default()
                };
                Box::new(move |catalog, _| catalog.plan_destroy(&request))
            }
            Admin::DestroyAll { volumes, named } => {
                let request = self.destruction(volumes, *named);
                Box::new(move |catalog, _| catalog.plan_destroy(&request))
            }
            Admin::Promote { volume } => {
                let name = self.name(*volume);
                Box::new(move |catalog, _| catalog.plan_promote(&name))
            }
            Admin::Rename { volume } => {
                let from = self.name(*volume);
                let request = Rename {
                    to: other_name(&from),
                    from,
                    ..Rename::default()
                };
                Box::new(move |catalog, stamp| catalog.plan_rename(&request, stamp))
            }
            Admin::SetProperty { volume, choice } => {
                let request = SetProperties {
                    name: self.name(*volume),
                    properties: self.setup.changed_property(*choice),
                    ..SetProperties::default()
                };
                Box::new(move |catalog, _| catalog.plan_set(&request))
            }
            Admin::Reserve { volume, blocks } => {
                let reserved = match blocks {
                    0 => "none".to_owned(),
                    blocks => (blocks * BLOCK_SIZE as u64).to_string(),
                };
                let request = SetProperties {
                    name: self.name(*volume),
                    properties: Texts::from([("refreservation".to_owned(), reserved)]),
                    ..SetProperties::default()
                };
                Box::new(move |catalog, _| catalog.plan_set(&request))
            }
            Admin::Checkpoint | Admin::Scrub | Admin::Reshape(_) => return None,
        })
    }
}

impl PoolSubject {
    /// Returns the request that destroys several volumes or snapshots by these names.
    fn destruction(&self, volumes: &[VolumeId], named: Named) -> Destroy {
        let within = |folder: Option<u32>| folder.map(folder_name).unwrap_or_default();
        let names = match named {
            Named::Each => volumes.iter().map(|volume| self.name(*volume)).collect(),
            Named::Below(folder) => vec![folder_name(folder)],
            Named::Group(group, folder) => vec![format!("{}@{GROUP}{group}", within(folder))],
        };
        Destroy {
            names,
            is_recursive: named != Named::Each,
            ..Destroy::default()
        }
    }
}

/// Returns the second name of a volume or snapshot. It has the volume's number too.
fn other_name(name: &str) -> String {
    let last = name.rfind(['@', '/']).map_or(0, |at| at + 1);
    let (above, own) = name.split_at(last);
    let (letter, number) = own.split_at(1);
    let other = match letter {
        "v" => "w",
        "w" => "v",
        "s" => "t",
        _ => "s",
    };
    format!("{above}{other}{number}")
}
