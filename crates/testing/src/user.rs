//! The user that runs the tests.

/// Returns the user's name, as the daemon gives it.
pub fn me() -> String {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut names = users.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2) == Some(&uid.as_str())).then(|| fields[0].to_owned())
    });
    names.next().unwrap_or(uid)
}
