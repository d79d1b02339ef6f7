//! Disks that hold blocks together: leaves, mirrors, raidz.
