//! How full the queue of a device is, in esxtop's words: wherever ACTV and QUED are told, these are
//! the same.

/// %USD: the share of the queue depth (DQLEN) that commands at the device (ACTV) take, in percent.
/// Over 100 after the depth was made smaller, until the commands that are out have come back.
pub fn used_percent(actv: f64, dqlen: u32) -> f64 {
    100.0 * actv / f64::from(dqlen.max(1))
}

/// LOAD: commands at the device and those that wait for it (QUED), over the queue depth. Above 1
/// the queue is shorter than what is asked of it.
pub fn load(actv: f64, qued: f64, dqlen: u32) -> f64 {
    (actv + qued) / f64::from(dqlen.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_esxtops() {
        // ACTV, QUED, DQLEN; %USD, LOAD.
        for (actv, qued, dqlen, used, loaded) in [
            (0.0, 0.0, 128, 0.0, 0.0),
            (32.0, 0.0, 128, 25.0, 0.25),
            (128.0, 0.0, 128, 100.0, 1.0),
            (128.0, 64.0, 128, 100.0, 1.5),
            (0.0, 1.0, 64, 0.0, 1.0 / 64.0),
            (48.0, 0.0, 32, 150.0, 1.5),
        ] {
            assert_eq!(used_percent(actv, dqlen), used);
            assert_eq!(load(actv, qued, dqlen), loaded);
        }
    }
}
