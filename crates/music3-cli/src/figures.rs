//! Numbers as people read them.

use std::time::Duration;

/// Returns a duration in the unit that suits it.
pub(crate) fn duration(duration: Duration) -> String {
    let secs = duration.as_secs_f64();
    match secs {
        _ if secs < 9.95 => format!("{secs:.1} s"),
        _ if secs < 90.0 => format!("{secs:.0} s"),
        _ if secs < 90.0 * 60.0 => format!("{:.0} min", secs / 60.0),
        _ if secs < 48.0 * 3600.0 => format!("{:.1} h", secs / 3600.0),
        _ => format!("{:.0} days", secs / 86_400.0),
    }
}

/// Returns bytes in the decimal unit that suits them.
pub(crate) fn bytes(bytes: u64) -> String {
    let count = bytes as f64;
    match count {
        _ if count < 1e3 => format!("{bytes} bytes"),
        _ if count < 1e6 => format!("{:.1} kB", count / 1e3),
        _ if count < 1e9 => format!("{:.1} MB", count / 1e6),
        _ => format!("{:.1} GB", count / 1e9),
    }
}

/// Returns a number of things.
pub(crate) fn count(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// Returns a level; silence has none.
pub(crate) fn level(dbfs: f64) -> String {
    if dbfs.is_finite() { format!("{dbfs:.1} dBFS") } else { "silent".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_the_unit() {
        let table =
            [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (89.0, "89 s"), (91.0, "2 min"), (7200.0, "2.0 h")];
        for (secs, text) in table {
            assert_eq!(duration(Duration::from_secs_f64(secs)), text);
        }
        assert_eq!(duration(Duration::from_secs(10 * 86_400)), "10 days");
        assert_eq!([999, 1_500, 36_100_000, 17_234_000_000].map(bytes), ["999 bytes", "1.5 kB", "36.1 MB", "17.2 GB"]);
        assert_eq!([-3.04, f64::NEG_INFINITY].map(level), ["-3.0 dBFS", "silent"]);
    }
}
