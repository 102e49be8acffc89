//! W3C trace context: where a request stands in a trace that other programs began.
//!
//! It travels in `_meta` as `traceparent` and `tracestate`, over every transport.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// The longest `tracestate` that is passed on. Receivers must take 512 characters.
const STATE_LIMIT: usize = 512;

/// One span of a trace, as a request carries it. `Display` writes it as a `traceparent`.
#[derive(Clone, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
    state: Option<Arc<str>>,
}

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

impl TraceContext {
    /// The first span of a new trace.
    pub fn root() -> Self {
        Self {
            trace_id: (u128::from(new_id()) << 64) | u128::from(new_id()),
            span_id: new_id(),
            flags: SAMPLED,
            state: None,
        }
    }

    /// Reads a `traceparent` and the `tracestate` beside it. `None` if the first is not valid; an invalid second is dropped.
    pub fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        let (version, rest) = (parent.get(..2)?, parent.get(2..)?);
        let is_known = version == "00" && parent.len() == 55;
        // A later version may have more fields behind these.
        let is_later =
            version != "00" && version != "ff" && matches!(parent.as_bytes().get(55), None | Some(b'-'));
        if !is_known && !is_later {
            return None;
        }
        hex(version)?;
        let mut fields = rest.strip_prefix('-')?.split('-');
        let mut field = |digits: usize| fields.next().filter(|field| field.len() == digits).and_then(hex);
        let (trace_id, span_id, flags) = (field(32)?, field(16)?, field(2)?);
        let is_valid = trace_id != 0 && span_id != 0;
        let is_printable = |state: &&str| {
            !state.is_empty()
                && state.len() <= STATE_LIMIT
                && state.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        };
        is_valid.then_some(Self {
            trace_id,
            span_id: u64::try_from(span_id).ok()?,
            flags: u8::try_from(flags).ok()?,
            state: state.filter(is_printable).map(Arc::from),
        })
    }

    /// A new span of the same trace, below this one.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            span_id: new_id(),
            ..self.clone()
        }
    }

    /// Whether the trace is recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The trace, as 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// The span, as 16 hexadecimal digits.
    pub fn span_id(&self) -> String {
        format!("{:016x}", self.span_id)
    }

    /// The `tracestate` that came with it.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "00-{:032x}-{:016x}-{:02x}",
            self.trace_id, self.span_id, self.flags
        )
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceContext({self})")
    }
}

/// Lower-case hexadecimal digits, as the specification wants them.
fn hex(digits: &str) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    digits
        .bytes()
        .all(is_digit)
        .then(|| u128::from_str_radix(digits, 16).ok())?
}

/// A number that no other program draws: a keyed hash of a counter, whose key the system drew at random.
fn new_id() -> u64 {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    match KEY.hash_one(NEXT.fetch_add(1, Ordering::Relaxed)) {
        // Zero stands for no id.
        0 => 1,
        id => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_read_and_written_and_its_children_stay_in_the_trace() {
        let context = TraceContext::parse(PARENT, Some("vendor=1")).expect("valid");
        assert_eq!(context.to_string(), PARENT);
        assert_eq!(context.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(
            (context.span_id().as_str(), context.state()),
            ("00f067aa0ba902b7", Some("vendor=1"))
        );
        let child = context.child();
        assert_eq!(
            (child.trace_id(), child.state()),
            (context.trace_id(), Some("vendor=1"))
        );
        assert_ne!(child.span_id(), context.span_id());
        assert!(context.is_sampled());
        assert!(
            !TraceContext::parse(&PARENT.replace("-01", "-00"), None)
                .expect("valid")
                .is_sampled()
        );
        let root = TraceContext::root();
        assert_eq!(TraceContext::parse(&root.to_string(), None), Some(root.clone()));
        assert_ne!(root.trace_id(), TraceContext::root().trace_id());
    }

    #[test]
    fn what_breaks_the_specification_is_no_context() {
        let changed = |from: &str, to: &str| PARENT.replacen(from, to, 1);
        for wrong in [
            String::new(),
            "é".repeat(40),
            changed("00-4b", "ff-4b"),
            changed("4bf92f", "4BF92F"),
            changed("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            changed("00f067aa0ba902b7", &"0".repeat(16)),
            changed("-01", "-01-more"),
            changed("-01", "-1"),
            changed("-01", "-+1"),
            changed("-00f067aa", "00f067aa-"),
            PARENT[..54].to_owned(),
        ] {
            assert_eq!(TraceContext::parse(&wrong, None), None, "{wrong}");
        }
        // A later version may have more.
        let later = format!("{}-more", changed("00-4b", "cc-4b"));
        assert!(TraceContext::parse(&later, None).is_some());
        let hostile = TraceContext::parse(PARENT, Some("a=\u{1b}[2J")).expect("valid");
        assert_eq!(hostile.state(), None);
        let long = "x".repeat(STATE_LIMIT + 1);
        assert_eq!(
            TraceContext::parse(PARENT, Some(&long)).expect("valid").state(),
            None
        );
    }
}
