//! Examples of each verb, one or several. Help and manual pages show them, and a test parses each
//! of them.

/// Words of each verb behind `sandstone`, with its examples, also without `sandstone`.
pub(super) const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "demo",
        &["demo", "demo --once", "demo --memory 1G --port 3270"],
    ),
    (
        "serve",
        &[
            "serve",
            "serve --state /var/lib/sandstone --portal 192.0.2.10",
            "serve --check",
        ],
    ),
    ("status", &["status", "status --json"]),
    (
        "share",
        &[
            "share vm1 --size 100G --host iqn.1998-01.com.vmware:esx1",
            "share vm1 --host esx1 --client esxi",
        ],
    ),
    (
        "user add",
        &[
            "user add ann --role admin",
            "user add bob --role viewer --password-file /run/keys/bob",
        ],
    ),
    (
        "user modify",
        &[
            "user modify ann --password",
            "user modify bob --disabled yes",
        ],
    ),
    ("user remove", &["user remove bob"]),
    ("user list", &["user list"]),
    ("user logins", &["user logins"]),
    ("user logout", &["user logout 3"]),
    (
        "token add",
        &[
            "token add monitor --role viewer --days 365",
            "token add pve --role admin --folder tank/pve --host pve1 --host pve2",
        ],
    ),
    ("token remove", &["token remove monitor"]),
    ("token list", &["token list"]),
    (
        "role set",
        &["role set ann operator", "role set --group staff viewer"],
    ),
    ("role remove", &["role remove ann"]),
    ("role list", &["role list"]),
    (
        "audit list",
        &["audit list", "audit list -l 20 -o seq,who,body"],
    ),
    ("audit verify", &["audit verify"]),
    ("tls show", &["tls show", "tls show --pem > san1.pem"]),
    (
        "tls give",
        &["tls give --cert /etc/ssl/san1.pem --key /etc/ssl/san1.key"],
    ),
    ("tls make", &["tls make"]),
    ("tls reload", &["tls reload"]),
    (
        "alert list",
        &["alert list", "alert list -o condition,object,next"],
    ),
    ("alert show", &["alert show 7"]),
    ("alert ack", &["alert ack 7", "alert ack 7 9"]),
    ("alert unack", &["alert unack 7"]),
    ("alert test", &["alert test ops"]),
    (
        "alert way add",
        &[
            "alert way add ops --to ops@example.org --from san@example.org --server mail.example.org --user san --password-file /etc/san/mail",
            "alert way add desk --url-file /etc/san/slack --format slack --least error",
            "alert way add watchdog --url https://watch.example.org/ping/san1 --every 60",
        ],
    ),
    (
        "alert way modify",
        &["alert way modify ops --least error --to night@example.org"],
    ),
    ("alert way remove", &["alert way remove desk"]),
    (
        "alert way list",
        &["alert way list", "alert way list -o name,to,reached"],
    ),
    (
        "alert conditions",
        &["alert conditions -o condition,severity,remedy"],
    ),
    (
        "events",
        &["events --since 2h --severity warning", "events -f"],
    ),
    ("openapi", &["openapi"]),
    ("completion", &["completion bash"]),
    (
        "man",
        &["man pool create", "man --folder /usr/local/share/man/man1"],
    ),
    // Logical units.
    (
        "lu create",
        &[
            "lu create vm1 --size 100G",
            "lu create vm1 --volume tank/vm1 --size 100G --write-cache",
            "lu create old --device /dev/sdb",
        ],
    ),
    (
        "lu modify",
        &["lu modify vm1 --size 200G", "lu modify vm1 --read-only yes"],
    ),
    ("lu online", &["lu online vm1"]),
    ("lu offline", &["lu offline vm1"]),
    ("lu clear", &["lu clear -n vm1 sanitize-failed"]),
    ("lu list", &["lu list", "lu list -o name,naa,backend vm1"]),
    ("lu delete", &["lu delete -n vm1", "lu delete vm1"]),
    // Pools.
    (
        "pool create",
        &[
            "pool create tank mirror /dev/sda /dev/sdb",
            "pool create -n tank raidz1 /dev/sda /dev/sdb /dev/sdc log /dev/nvme0n1 spare /dev/sdd",
            "pool create --size 10G test /srv/a.img",
        ],
    ),
    ("pool list", &["pool list", "pool list -v tank"]),
    (
        "pool disks",
        &["pool disks", "pool disks --locate ZL2A7XYZ"],
    ),
    ("pool status", &["pool status -x", "pool status -v tank"]),
    (
        "pool get",
        &["pool get all tank", "pool get health,capacity"],
    ),
    ("pool set", &["pool set autotrim=on tank"]),
    ("pool iostat", &["pool iostat -v tank 5", "pool iostat -l"]),
    (
        "pool import",
        &[
            "pool import",
            "pool import tank",
            "pool import -d /srv tank newname",
        ],
    ),
    ("pool reguid", &["pool reguid -d /dev/sdx tank copy"]),
    ("pool export", &["pool export tank"]),
    (
        "pool destroy",
        &["pool destroy -n tank", "pool destroy tank"],
    ),
    ("pool scrub", &["pool scrub tank", "pool scrub -s tank"]),
    ("pool trim", &["pool trim tank"]),
    ("pool sync", &["pool sync tank"]),
    ("pool offline", &["pool offline tank sda"]),
    (
        "pool online",
        &["pool online tank sda", "pool online -e tank sda"],
    ),
    ("pool attach", &["pool attach -w tank sda /dev/sdb"]),
    (
        "pool replace",
        &["pool replace -w tank sda /dev/sdc", "pool replace tank sda"],
    ),
    ("pool detach", &["pool detach tank sdb"]),
    (
        "pool add",
        &[
            "pool add tank mirror /dev/sde /dev/sdf",
            "pool add tank spare /dev/sdg",
        ],
    ),
    ("pool remove", &["pool remove tank nvme0n1"]),
    ("pool clear", &["pool clear tank", "pool clear tank sda"]),
    ("pool upgrade", &["pool upgrade", "pool upgrade tank"]),
    ("pool events", &["pool events", "pool events tank"]),
    ("pool history", &["pool history -l tank"]),
    ("pool check", &["pool check tank", "pool check /srv/a.img"]),
    // Volumes.
    (
        "volume create",
        &[
            "volume create -V 100G tank/vm1",
            "volume create -s -V 1T -o volblocksize=8K tank/db",
            "volume create tank/customers",
        ],
    ),
    (
        "volume list",
        &["volume list", "volume list -t all -r -S used tank"],
    ),
    (
        "volume destroy",
        &[
            "volume destroy -nv tank/vm1@a%c",
            "volume destroy -r tank/vm1",
        ],
    ),
    (
        "volume snapshot",
        &[
            "volume snapshot tank/vm1@monday",
            "volume snapshot -r tank@monday",
        ],
    ),
    ("volume rollback", &["volume rollback tank/vm1@monday"]),
    ("volume clone", &["volume clone tank/vm1@monday tank/test"]),
    ("volume promote", &["volume promote tank/test"]),
    ("volume rename", &["volume rename tank/vm1 tank/web"]),
    (
        "volume get",
        &[
            "volume get all tank/vm1",
            "volume get -r used,referenced tank",
        ],
    ),
    (
        "volume set",
        &[
            "volume set compression=zstd tank",
            "volume set volsize=200G tank/vm1",
        ],
    ),
    ("volume resize", &["volume resize tank/vm1 200G"]),
    ("volume inherit", &["volume inherit compression tank/vm1"]),
    ("volume hold", &["volume hold backup tank/vm1@monday"]),
    ("volume release", &["volume release backup tank/vm1@monday"]),
    ("volume holds", &["volume holds -r tank/vm1@monday"]),
    (
        "volume send",
        &[
            "volume send tank/vm1@monday > vm1.stream",
            "volume send -i @monday tank/vm1@tuesday > vm1-tuesday.stream",
        ],
    ),
    (
        "volume receive",
        &[
            "volume receive backup/vm1 < vm1.stream",
            "volume receive -s --listen 0.0.0.0:8730 backup/vm1",
        ],
    ),
    (
        "volume salvage",
        &[
            "volume salvage tank/vm1 /srv/vm1.img",
            "volume salvage tank/vm1 --to tank/rescued",
        ],
    ),
    // Targets.
    (
        "target create",
        &["target create iqn.2026-01.com.example:san1 --portal 192.0.2.10"],
    ),
    (
        "target portal add",
        &["target portal add iqn.2026-01.com.example:san1 198.51.100.10:3260 --tag 2"],
    ),
    (
        "target portal remove",
        &["target portal remove iqn.2026-01.com.example:san1 198.51.100.10:3260"],
    ),
    (
        "target auth",
        &["target auth iqn.2026-01.com.example:san1 --user san1 --generate"],
    ),
    ("target alua-state", &["target alua-state 2 standby"]),
    (
        "target modify",
        &["target modify iqn.2026-01.com.example:san1 --queue-depth 64"],
    ),
    (
        "target online",
        &["target online iqn.2026-01.com.example:san1"],
    ),
    (
        "target offline",
        &["target offline iqn.2026-01.com.example:san1"],
    ),
    (
        "target redirect",
        &["target redirect iqn.2026-01.com.example:san1 192.0.2.11:3260"],
    ),
    ("target list", &["target list", "target list --json"]),
    (
        "target delete",
        &["target delete -n iqn.2026-01.com.example:san1"],
    ),
    (
        "target-group create",
        &[
            "target-group create both --target iqn.2026-01.com.example:san1 --target iqn.2026-01.com.example:san2",
        ],
    ),
    (
        "target-group add-target",
        &["target-group add-target both iqn.2026-01.com.example:san3"],
    ),
    (
        "target-group remove-target",
        &["target-group remove-target both iqn.2026-01.com.example:san3"],
    ),
    ("target-group list", &["target-group list"]),
    ("target-group delete", &["target-group delete both"]),
    // Hosts and the map.
    (
        "host create",
        &["host create esx1 --initiator iqn.1998-01.com.vmware:esx1"],
    ),
    (
        "host add-initiator",
        &["host add-initiator esx1 iqn.1998-01.com.vmware:esx1-2"],
    ),
    (
        "host remove-initiator",
        &["host remove-initiator esx1 iqn.1998-01.com.vmware:esx1-2"],
    ),
    (
        "host auth",
        &[
            "host auth esx1 --user esx1 --generate",
            "host auth esx1 --none",
        ],
    ),
    ("host list", &["host list"]),
    ("host delete", &["host delete -n esx1"]),
    (
        "map add",
        &[
            "map add vm1 --host esx1",
            "map add vm1 --host esx1 --lun 5 --read-only",
        ],
    ),
    ("map remove", &["map remove vm1 --host esx1"]),
    ("map list", &["map list"]),
    (
        "map explain",
        &[
            "map explain esx1 vm1",
            "map explain iqn.1998-01.com.vmware:esx1",
        ],
    ),
    ("session list", &["session list"]),
    ("session logout", &["session logout 3 --within 60"]),
    ("session kill", &["session kill 3"]),
    (
        "iostat",
        &[
            "iostat vm1 5",
            "iostat -s -y 1 10",
            "iostat -x -m 5",
            "iostat -x -n -z 5",
            "iostat -x -o JSON -y 1 1",
        ],
    ),
    (
        "top",
        &["top", "top -d 2 --initiator", "top -b -d 10 -n 360"],
    ),
    (
        "history",
        &[
            "history unit vm1",
            "history pool tank --span 14d",
            "history disk",
        ],
    ),
    // This machine as a client.
    (
        "initiator discover",
        &[
            "initiator discover 192.0.2.20",
            "initiator discover --isns 192.0.2.2",
        ],
    ),
    (
        "initiator login",
        &[
            "initiator login iqn.2005-10.org.example:array --portal 192.0.2.20 --portal 198.51.100.20",
        ],
    ),
    (
        "initiator modify",
        &["initiator modify iqn.2005-10.org.example:array --sessions 2"],
    ),
    (
        "initiator logout",
        &["initiator logout iqn.2005-10.org.example:array"],
    ),
    ("initiator rescan", &["initiator rescan"]),
    ("initiator adapter get", &["initiator adapter get"]),
    (
        "initiator adapter set",
        &["initiator adapter set --name iqn.2026-01.com.example:gateway1"],
    ),
    ("initiator session list", &["initiator session list"]),
    ("initiator lun list", &["initiator lun list"]),
    ("initiator device list", &["initiator device list"]),
    (
        "initiator device get",
        &["initiator device get -d naa.652534e0000000000000100000000001"],
    ),
    (
        "initiator device set",
        &[
            "initiator device set -d naa.652534e0000000000000100000000001 --psp VMW_PSP_RR --queue-depth 64",
        ],
    ),
    (
        "initiator device reset",
        &["initiator device reset -d naa.652534e0000000000000100000000001"],
    ),
    ("initiator path list", &["initiator path list"]),
    (
        "initiator claimrule list",
        &["initiator claimrule list --user"],
    ),
    (
        "initiator claimrule add",
        &["initiator claimrule add --satp VMW_SATP_ALUA --vendor EXAMPLE --psp VMW_PSP_RR"],
    ),
    (
        "initiator claimrule remove",
        &["initiator claimrule remove --satp VMW_SATP_ALUA --vendor EXAMPLE"],
    ),
    ("initiator satp list", &["initiator satp list"]),
    (
        "initiator satp set",
        &["initiator satp set --satp VMW_SATP_ALUA --psp VMW_PSP_RR"],
    ),
    ("initiator psp list", &["initiator psp list"]),
    ("initiator psp get", &["initiator psp get"]),
    (
        "initiator psp set",
        &["initiator psp set -d naa.652534e0000000000000100000000001 --iops 1"],
    ),
    (
        "initiator attach",
        &[
            "initiator attach naa.652534e0000000000000100000000001 --socket /run/disk.sock",
            "initiator attach iscsi://192.0.2.20/iqn.2005-10.org.example:array/0 --listen 127.0.0.1:10809",
        ],
    ),
    // Measuring.
    (
        "bench run",
        &[
            "bench run memory:1G",
            "bench run /srv/test.img --size 10G --save before.json",
        ],
    ),
    (
        "bench profiles",
        &["bench profiles", "bench profiles vmktree"],
    ),
    (
        "bench sweep",
        &["bench sweep /srv/test.img --size 10G --knob outstanding=1,8,64 --report sweep.html"],
    ),
    ("bench knobs", &["bench knobs"]),
    (
        "bench network",
        &["bench network 192.0.2.10", "bench network --serve"],
    ),
    ("bench lab list", &["bench lab list"]),
    ("bench lab run", &["bench lab run all"]),
    ("bench compare", &["bench compare before.json after.json"]),
    (
        "bench report",
        &["bench report before.json after.json --output report.html"],
    ),
    (
        "bench import",
        &["bench import old.icf --output profile.json"],
    ),
    (
        "bench export",
        &["bench export before.json --as fio --output fio.json"],
    ),
    // The configuration as a whole.
    ("config show", &["config show > san.toml"]),
    ("config plan", &["config plan san.toml"]),
    ("config apply", &["config apply san.toml"]),
    ("config diff", &["config diff san.toml"]),
    (
        "config import",
        &[
            "config import /etc/scst.conf",
            "config import --apply /etc/rtslib-fb-target/saveconfig.json",
        ],
    ),
    ("config discovery-auth", &["config discovery-auth yes"]),
    (
        "config discovery-user",
        &["config discovery-user --user discovery --generate"],
    ),
    (
        "config discovery-secret",
        &["config discovery-secret --user san1 --secret-file /etc/sandstone-secret"],
    ),
    (
        "config export",
        &["config export --with-secrets --seal san.backup"],
    ),
    (
        "config restore",
        &["config restore -n san.backup", "config restore san.backup"],
    ),
    ("config history", &["config history"]),
    ("config rollback", &["config rollback 12"]),
];

/// Returns the examples of a verb, or none if the verb only has verbs below it.
pub(crate) fn of(verb: &str) -> &'static [&'static str] {
    let found = EXAMPLES.iter().find(|(of, _)| *of == verb);
    found.map_or(&[], |(_, examples)| examples)
}
