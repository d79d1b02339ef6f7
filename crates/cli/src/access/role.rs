//! `role`: the roles of users and groups of this machine at the control socket.

use clap::{Args, Subcommand};

use super::user::role;
use crate::print::table::{Column, ListArgs, left, print};
use crate::{Connection, Done, Terminal};
use control::endpoint::access as at;
use model::access::{AccountKind, Role, SocketRole};

#[derive(Debug, Subcommand)]
pub(crate) enum RoleVerb {
    /// Give a user or group of this machine a role at the control socket
    Set(Set),
    /// Take such a role away
    #[command(visible_alias = "delete")]
    Remove(Remove),
    /// List the roles; root and the group sandstone are always admins
    #[command(visible_alias = "show")]
    List(ListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Name of the user, or of the group with --group
    name: String,
    /// Role: viewer, operator or admin
    #[arg(value_parser = role)]
    role: Role,
    /// The name is that of a group
    #[arg(short, long)]
    group: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Name of the user, or of the group with --group
    name: String,
    /// The name is that of a group
    #[arg(short, long)]
    group: bool,
}

fn kind(is_group: bool) -> AccountKind {
    match is_group {
        true => AccountKind::Group,
        false => AccountKind::User,
    }
}

pub(crate) fn run(verb: RoleVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    match verb {
        RoleVerb::Set(args) => {
            let body = SocketRole {
                kind: kind(args.group),
                name: args.name,
                role: args.role,
            };
            client.ask(&at::ROLE_SET, &[], &(), &body)?;
            let SocketRole { kind, name, role } = body;
            Ok(writeln!(
                t.out,
                "the {kind} {name} has the role {role} at the control socket"
            )?)
        }
        RoleVerb::Remove(args) => {
            let kind = kind(args.group);
            client.call(&at::ROLE_REMOVE, &[&kind.to_string(), &args.name])?;
            Ok(writeln!(
                t.out,
                "the {kind} {} has no role of its own any more",
                args.name
            )?)
        }
        RoleVerb::List(args) => {
            let roles = client.call(&at::ROLE_LIST, &[])?;
            let none = "no roles; root and the members of the group sandstone are admins";
            print(t, &args, &COLUMNS, &roles, none)
        }
    }
}

const COLUMNS: [Column<SocketRole>; 3] = [
    left("kind", |role, _| role.kind.to_string()),
    left("name", |role, _| role.name.clone()),
    left("role", |role, _| role.role.to_string()),
];
