//! Load of a device's queue in esxtop's words. Every place that shows ACTV and QUED computes %USD
//! and LOAD here.

/// Returns %USD: the share of the queue depth (DQLEN) that commands at the device (ACTV) take, in
/// percent. The value is over 100 after the depth was reduced, until the commands under way have
/// come back.
pub fn used_percent(actv: f64, dqlen: u32) -> f64 {
    100.0 * actv / f64::from(dqlen.max(1))
}

/// Returns LOAD: commands at the device and commands that wait for it (QUED), over the queue depth.
/// Above 1, the queue is too short for the demand.
pub fn load(actv: f64, qued: f64, dqlen: u32) -> f64 {
    (actv + qued) / f64::from(dqlen.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_esxtops() {
        // The columns are ACTV, QUED, DQLEN; %USD, LOAD.
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
