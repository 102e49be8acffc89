//! Reads how patiently a server is kept: `restart`, `probe`, `idle_stop`, `refresh_interval`.

use mainstay_lifecycle::{Backoff, Policy, Probe, WhenLost, WhenSpent};

use super::fields::{Field, FieldSet};
use super::keys::{BACKOFF, BUCKET, PROBE, RESTART};
use super::report::ProblemReport;
use super::syntax::Value;
use crate::config::problem::{ProblemText, quoted};

/// The policy of a server, from its fields.
pub(super) fn policy(fields: &FieldSet<'_>, report: &mut ProblemReport<'_>) -> Policy {
    let mut policy = Policy::default();
    if let Some(field) = fields.get("restart") {
        restart(field, &mut policy, report);
    }
    if let Some(field) = fields.get("probe") {
        policy.probe = probe(field, report);
    }
    if let Some(field) = fields.get("idle_stop") {
        policy.idle_stop = match field.value() {
            Value::Flag(false) => None,
            _ => field.duration(report),
        };
    }
    if let Some(field) = fields.get("refresh_interval") {
        policy.expiry.every = field.duration(report);
    }
    policy
}

fn restart(field: &Field<'_>, policy: &mut Policy, report: &mut ProblemReport<'_>) {
    if let Value::Text(text) = field.value() {
        if text.as_ref() == "never" {
            policy.when_lost = WhenLost::StayDisconnected;
        } else {
            when_spent(field, policy, report, r#"write "probe", "give_up" or "never""#);
        }
        return;
    }
    let Some(object) = field.object(report) else {
        return;
    };
    let fields = FieldSet::of(field, object, &RESTART, report);
    if let Some(budget) = fields.get("budget").and_then(|field| field.count(report)) {
        policy.budget = budget;
    }
    if let Some(field) = fields.get("backoff") {
        backoff(field, policy, report);
    }
    if let Some(field) = fields.get("when_spent") {
        when_spent(field, policy, report, r#"write "probe" or "give_up""#);
    }
    if let Some(field) = fields.get("slow_probe") {
        let period = field.duration(report);
        match (&mut policy.when_spent, period) {
            (WhenSpent::ProbeEvery(every), Some(period)) => *every = period,
            (WhenSpent::ProbeEvery(_), None) => {}
            (WhenSpent::GiveUp, _) => {
                let problem = ProblemText::new(
                    r#"has no effect, since when_spent is "give_up""#,
                    "remove one of the two",
                );
                field.warning(report, problem);
            }
        }
    }
    if let Some(field) = fields.get("bucket") {
        bucket(field, policy, report);
    }
    if let Some(stable_after) = fields
        .get("stable_after")
        .and_then(|field| field.duration(report))
    {
        policy.stable_after = stable_after;
    }
}

fn when_spent(field: &Field<'_>, policy: &mut Policy, report: &mut ProblemReport<'_>, fix: &str) {
    match field.text(report) {
        None | Some("probe") => {}
        Some("give_up" | "giveUp") => policy.when_spent = WhenSpent::GiveUp,
        Some("never") => field.error(
            report,
            ProblemText::new(
                "says nothing of a budget that is spent",
                r#"for a server that only a call or a person starts again, write "restart": "never""#,
            ),
        ),
        Some(other) => field.error(
            report,
            ProblemText::new(format!("{} is not understood", quoted(other)), fix),
        ),
    }
}

fn backoff(field: &Field<'_>, policy: &mut Policy, report: &mut ProblemReport<'_>) {
    let Some(object) = field.object(report) else {
        return;
    };
    let fields = FieldSet::of(field, object, &BACKOFF, report);
    let first = fields.get("first").and_then(|field| field.duration(report));
    let ceiling = fields.get("ceiling").and_then(|field| field.duration(report));
    let usual = Backoff::default();
    policy.backoff = match (first, ceiling) {
        (Some(first), Some(ceiling)) => {
            if ceiling < first
                && !ceiling.is_zero()
                && let Some(field) = fields.get("ceiling")
            {
                let problem = ProblemText::new(
                    "the longest pause is shorter than the first",
                    "raise it, or lower `first`",
                );
                field.error(report, problem);
            }
            // A zero ceiling stays what it is, so that it is reported as such.
            Backoff::new(first.min(ceiling), ceiling)
        }
        (Some(first), None) => Backoff::new(first, usual.ceiling()),
        (None, Some(ceiling)) => Backoff::new(usual.first().min(ceiling), ceiling),
        (None, None) => usual,
    };
}

fn bucket(field: &Field<'_>, policy: &mut Policy, report: &mut ProblemReport<'_>) {
    let Some(object) = field.object(report) else {
        return;
    };
    let fields = FieldSet::of(field, object, &BUCKET, report);
    if let Some(size) = fields.get("size").and_then(|field| field.count(report)) {
        policy.bucket.size = size;
    }
    if let Some(refill_every) = fields
        .get("refill_every")
        .and_then(|field| field.duration(report))
    {
        policy.bucket.refill_every = refill_every;
    }
}

fn probe(field: &Field<'_>, report: &mut ProblemReport<'_>) -> Option<Probe> {
    let mut probe = Probe::default();
    if let Value::Flag(flag) = field.value() {
        return flag.then_some(probe);
    }
    let fields = FieldSet::of(field, field.object(report)?, &PROBE, report);
    if let Some(after_silence) = fields
        .get("after_silence")
        .and_then(|field| field.duration(report))
    {
        probe.after_silence = after_silence;
    }
    if let Some(timeout) = fields.get("timeout").and_then(|field| field.duration(report)) {
        probe.timeout = timeout;
    }
    if let Some(misses) = fields.get("misses").and_then(|field| field.count(report)) {
        probe.misses = misses;
    }
    Some(probe)
}
