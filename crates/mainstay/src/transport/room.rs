//! Room for messages that grow while they come.

/// A message that has come this far gets room for a large one at once, instead of growing by copies of itself.
const LARGE: usize = 256 * 1024;

/// Room for a large message. Memory that was never written is not held; and a piece of more than 32 MiB is one that the
/// allocator maps by itself and gives back to the system with the message, where a smaller one may be kept for the next.
const LARGE_ROOM: usize = 33 * 1024 * 1024;

/// How much more room to make for a message that has come this far: the usual, or what a large one needs.
pub(super) fn more(come: usize, usual: usize, limit: usize) -> usize {
    if is_large(come) {
        LARGE_ROOM.min(limit).max(usual)
    } else {
        usual
    }
}

/// Whether memory of this size should go with its message.
pub(super) fn is_large(length: usize) -> bool {
    length >= LARGE
}
