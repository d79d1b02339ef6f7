//! The verbs of a long list, grouped by purpose. Many users know zpool, zfs and esxcli; nobody
//! knows all verbs of this program.

/// Words of each verb that has many verbs below it, with the groups of these.
pub(super) const GROUPS: &[(&str, &[Group])] = &[
    (
        "",
        &[
            ("Begin here", &["demo", "serve", "share", "status"]),
            ("Storage", &["pool", "volume", "lu"]),
            (
                "Who sees it",
                &["target", "target-group", "host", "map", "session"],
            ),
            ("As a client of other storage", &["initiator"]),
            ("Watching", &["alert", "events"]),
            ("Measuring", &["top", "iostat", "history", "bench"]),
            (
                "Who may do what",
                &["user", "token", "role", "audit", "tls"],
            ),
            (
                "The program itself",
                &["config", "openapi", "completion", "man"],
            ),
        ],
    ),
    (
        "pool",
        &[
            (
                "Make and end",
                &["create", "import", "export", "destroy", "reguid", "upgrade"],
            ),
            (
                "Look",
                &["list", "status", "get", "iostat", "events", "history"],
            ),
            (
                "Devices",
                &[
                    "disks", "add", "remove", "attach", "detach", "replace", "online", "offline",
                ],
            ),
            ("Care", &["scrub", "trim", "clear", "sync", "set", "check"]),
        ],
    ),
    (
        "volume",
        &[
            ("Make and end", &["create", "destroy", "rename", "resize"]),
            ("Look", &["list", "get", "holds"]),
            ("Properties", &["set", "inherit"]),
            (
                "Snapshots",
                &[
                    "snapshot", "rollback", "clone", "promote", "hold", "release",
                ],
            ),
            ("Copies elsewhere", &["send", "receive", "salvage"]),
        ],
    ),
    (
        "target",
        &[
            ("Make and end", &["create", "delete", "modify"]),
            ("Look", &["list"]),
            (
                "Access",
                &[
                    "portal",
                    "auth",
                    "online",
                    "offline",
                    "redirect",
                    "alua-state",
                ],
            ),
        ],
    ),
    (
        "initiator",
        &[
            (
                "Targets",
                &["discover", "login", "modify", "logout", "rescan"],
            ),
            (
                "What there is",
                &["adapter", "session", "lun", "device", "path"],
            ),
            ("Path selection", &["claimrule", "satp", "psp"]),
            ("Use", &["attach"]),
        ],
    ),
    (
        "bench",
        &[
            ("Measure", &["run", "sweep", "network", "lab"]),
            ("Choose", &["profiles", "knobs"]),
            ("Results", &["compare", "report", "import", "export"]),
        ],
    ),
    (
        "config",
        &[
            ("Look", &["show", "history"]),
            ("Change", &["plan", "diff", "apply", "rollback", "import"]),
            ("Copies with secrets", &["export", "restore"]),
            (
                "Discovery",
                &["discovery-auth", "discovery-user", "discovery-secret"],
            ),
        ],
    ),
];

/// Heading, and the verbs below it.
pub(super) type Group = (&'static str, &'static [&'static str]);

/// Returns the groups of a verb's verbs, or none if its list is short.
pub(super) fn of(verb: &str) -> Option<&'static [Group]> {
    let found = GROUPS.iter().find(|(of, _)| *of == verb);
    found.map(|(_, groups)| *groups)
}
