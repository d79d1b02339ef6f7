//! Tests of devices that cannot be used. The error names their owner or fault, and the step that
//! helps.

use rustix::io::Errno;

use super::*;
use crate::devices::label;
use block::BlockError;
use model::pool::create::CreatePool;
use model::pool::vdev_change::VdevChange;
use model::pool::vdev_request::{VdevKind, VdevRequest};

#[test]
fn a_device_of_an_open_pool_is_refused_by_the_pools_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = pools(folder.path());
    let made = CreatePool {
        spares: vec![folder.path().join("spare")],
        caches: vec![folder.path().join("cache")],
        ..request(folder.path(), VdevKind::Mirror, 2)
    };
    pools.create(&made).expect("a pool");
    let hard = folder.path().join("hard");
    std::fs::hard_link(folder.path().join("d0"), &hard).expect("a link");
    for (name, there) in [
        ("d0", ""),
        ("d1", ""),
        ("spare", ""),
        ("cache", ""),
        ("hard", "d0"),
    ] {
        let path = folder.path().join(name);
        let other = CreatePool {
            name: "other".to_owned(),
            vdevs: vec![VdevRequest {
                kind: VdevKind::Disk,
                paths: vec![path.clone()],
            }],
            // No force makes a pool of a device that another pool uses.
            force: true,
            ..request(folder.path(), VdevKind::Disk, 1)
        };
        let there = match there {
            "" => String::new(),
            there => format!(", which uses it as {}", folder.path().join(there).display()),
        };
        let message = format!("{} is a device of pool tank{there}", path.display());
        let next = "choose another device: `sandstone pool status tank` shows the pool's devices; `sandstone pool remove` \
                    releases logs, caches and spares, `sandstone pool detach` releases a device of a mirror";
        let attach = VdevChange::Attach {
            device: folder.path().join("d0").display().to_string(),
            new: path.clone(),
            force: true,
            file_size: None,
        };
        for error in [
            pools.create(&other).expect_err("in use"),
            pools.would_create(&other).map(drop).expect_err("in use"),
            pools.change_vdevs("tank", &attach).expect_err("in use"),
        ] {
            assert_eq!(error.kind, ErrorKind::InUse, "{name}");
            assert_eq!((&*error.message, &*error.next), (&*message, next), "{name}");
        }
    }
    wait_until_well(&pools);
    pools.close();
}

#[test]
fn labels_that_cannot_be_read_are_told_by_what_fails() {
    let failed = |path: &'static str, errno: Errno| {
        let error = BlockError::reading(errno.into(), format!("reading {path}")).at(512);
        let error = label::failed("read", Path::new(path), error);
        (error.message, error.next)
    };
    assert_eq!(
        failed("/dev/loop5", Errno::IO),
        (
            "could not read the labels of /dev/loop5: read failed: reading /dev/loop5 at byte 512".to_owned(),
            "the file beneath /dev/loop5 fails, or is too short: see `losetup -l /dev/loop5` and `dmesg`, or choose another \
             device"
                .to_owned()
        )
    );
    for (path, errno) in [
        ("/dev/sdx", Errno::IO),
        ("/dev/sdx", Errno::NODEV),
        ("/srv/pool.img", Errno::IO),
        ("/srv/pool.img", Errno::NOSPC),
        ("naa.652534e0", Errno::IO),
    ] {
        let (_, next) = failed(path, errno);
        assert!(!next.contains("state folder"), "{path} {errno:?}: {next}");
    }
}
