//! `target-group`: groups of targets that maps name together.

use clap::{Args, Subcommand};

use super::edit::{EditArgs, Request, make, remove};
use super::{Connection, Done, Terminal};
use crate::grammar::completion::{target_group_names, target_names};
use crate::print::table::{Column, ListArgs, left, or_dash, print, right};
use config::change::CreateTargetGroup;
use control::Client;
use control::answer::TargetGroupView;
use control::endpoint::target_group;

#[derive(Debug, Subcommand)]
pub(super) enum TargetGroupVerb {
    /// Make a target group
    Create(Create),
    /// Add a target: the group's maps lead to it too
    AddTarget(AddTarget),
    /// Remove a target: the group's maps lead to it no more
    RemoveTarget(RemoveTarget),
    /// List target groups
    #[command(visible_alias = "show")]
    List(List),
    /// Remove a target group; its targets stay
    Delete(Delete),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// Name of the target group
    name: String,
    /// Target to put into the group; may be given several times
    #[arg(short, long = "target", value_name = "IQN", add = target_names())]
    targets: Vec<String>,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct AddTarget {
    /// Name of the target group
    #[arg(add = target_group_names())]
    group: String,
    /// Name of the target
    #[arg(add = target_names())]
    iqn: String,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct RemoveTarget {
    /// Name of the target group
    #[arg(add = target_group_names())]
    group: String,
    /// Name of the target
    #[arg(add = target_names())]
    iqn: String,
    #[command(flatten)]
    removal: EditArgs,
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// Target groups to list [default: all]
    #[arg(add = target_group_names())]
    names: Vec<String>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Args)]
pub(super) struct Delete {
    /// Name of the target group
    #[arg(add = target_group_names())]
    name: String,
    #[command(flatten)]
    removal: EditArgs,
}

pub(super) fn run(verb: TargetGroupVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    match verb {
        TargetGroupVerb::Create(args) => {
            let body = CreateTargetGroup {
                name: args.name,
                targets: args.targets,
            };
            let request = Request::with(&target_group::CREATE, &[], &body);
            make(t, &client, &args.edit, &request)
        }
        TargetGroupVerb::AddTarget(args) => {
            let at = [args.group.as_str(), args.iqn.as_str()];
            let request = Request::bare(&target_group::ADD_TARGET, &at);
            make(t, &client, &args.edit, &request)
        }
        TargetGroupVerb::RemoveTarget(args) => {
            let at = [args.group.as_str(), args.iqn.as_str()];
            let request = Request::bare(&target_group::REMOVE_TARGET, &at);
            remove(t, &client, &args.removal, &request, false)
        }
        TargetGroupVerb::List(args) => list(&args, &client, t),
        TargetGroupVerb::Delete(args) => {
            let request = Request::bare(&target_group::DELETE, &[&args.name]);
            remove(t, &client, &args.removal, &request, false)
        }
    }
}

fn list(args: &List, client: &Client, t: &mut Terminal<'_>) -> Done {
    let one = |name: &String| client.call(&target_group::SHOW, &[name]);
    let groups: Vec<TargetGroupView> = match args.names.as_slice() {
        [] => client.call(&target_group::LIST, &[])?,
        names => names.iter().map(one).collect::<Result<_, _>>()?,
    };
    let none = "no target groups; make one with `sandstone target-group create NAME --target IQN`";
    print(t, &args.list, &COLUMNS, &groups, none)
}

const COLUMNS: [Column<TargetGroupView>; 3] = [
    left("name", |g, _| g.spec.name.clone()),
    left("targets", |g, _| or_dash(&g.spec.targets.join(" "))),
    right("maps", |g, _| g.maps.len().to_string()),
];
