//! The names in logs and JSON are an interface, so they do not change by accident.

use mainstay_lifecycle::{Cause, Generation, StateKind};

#[test]
fn states_causes_and_generations_are_shown_by_their_names() {
    let failed = StateKind::PermanentlyFailed;
    assert_eq!(
        (failed.as_str(), failed.to_string()),
        ("permanently_failed", "permanently_failed".into())
    );
    assert_eq!(format!("{:>10}|", StateKind::Disabled), "  disabled|");
    let missed = Cause::ProbesMissed;
    assert_eq!(
        (missed.as_str(), missed.to_string()),
        ("probes_missed", "probes_missed".into())
    );
    assert_eq!(Generation(7).to_string(), "7");
}
