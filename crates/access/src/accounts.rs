//! Users and groups of this machine, as its files name them.

use std::fs;

/// User at the other end of the control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Number of the user.
    pub uid: u32,
    /// Name of the user, or the number if the user has no name here.
    pub name: String,
    /// Names of the user's groups.
    pub groups: Vec<String>,
}

impl Account {
    /// Returns the account of a user whose process has this group.
    pub fn of(uid: u32, gid: u32) -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self::from_files(uid, gid, &read("/etc/passwd"), &read("/etc/group"))
    }

    fn from_files(uid: u32, gid: u32, users: &str, groups: &str) -> Self {
        let name = name_of(users, uid);
        let groups = groups.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [group, _, number, members] = fields[..] else {
                return None;
            };
            let is_member = name
                .as_deref()
                .is_some_and(|name| members.split(',').any(|it| it == name));
            (is_member || number.parse() == Ok(gid)).then(|| group.to_owned())
        });
        let groups = groups.collect();
        Self {
            uid,
            name: name.unwrap_or_else(|| uid.to_string()),
            groups,
        }
    }
}

/// Returns the name of a user of this machine, or the number if the user has no name here.
pub fn user_name(uid: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    name_of(&users, uid).unwrap_or_else(|| uid.to_string())
}

/// Returns the number of a group of this machine.
pub fn group_id(name: &str) -> Option<u32> {
    let groups = fs::read_to_string("/etc/group").ok()?;
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        fields.nth(1)?.parse().ok()
    })
}

fn name_of(users: &str, uid: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_groups_of_the_files_and_of_the_process() {
        let users = "root:x:0:0::/root:/bin/sh\nann:x:7:70::/:/bin/sh\n";
        let groups = "root:x:0:\nsandstone:x:90:bob,ann\nann:x:70:\nannex:x:91:anna\nodd\n";
        let ann = Account::from_files(7, 70, users, groups);
        assert_eq!(
            (ann.name.as_str(), ann.groups),
            ("ann", vec!["sandstone".to_owned(), "ann".to_owned()])
        );
        let nobody = Account::from_files(8, 91, users, groups);
        assert_eq!(
            (nobody.name.as_str(), nobody.groups),
            ("8", vec!["annex".to_owned()])
        );
    }

    #[test]
    fn users_are_named_where_the_machine_knows_them() {
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(4_000_000_001), "4000000001");
        assert_eq!(group_id("root"), Some(0));
        assert_eq!(group_id("no such group"), None);
    }
}
