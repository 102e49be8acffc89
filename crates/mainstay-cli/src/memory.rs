//! Gives the memory of large messages back to the system.
//!
//! glibc adapts: each time a large block is freed, it raises the size from which blocks get a mapping of their own, up to 32 MiB.
//! Large messages then live in its heaps, which keep what is freed. Fixed thresholds turn the adaptation off: a message of
//! this size or more has its own mapping, and the system has it back as soon as it is freed.

/// Large messages are parsed on other threads from this size on, too; smaller ones are reused from the heap.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK_LIMIT: libc::c_int = 1024 * 1024;

/// Fixes the thresholds. Called before the program has a second thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(
    unsafe_code,
    reason = "mallopt is the only way to set glibc's thresholds from inside"
)]
pub(crate) fn return_large_blocks() {
    for parameter in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // A refusal leaves the adaptation on, which costs memory and nothing else.
        // SAFETY: mallopt stores a number in glibc's settings. It takes no pointer, and no other thread runs yet.
        let _is_set = unsafe { libc::mallopt(parameter, LARGE_BLOCK_LIMIT) };
    }
}

/// Other allocators decide by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn return_large_blocks() {}

#[cfg(all(test, target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod tests {
    use super::*;

    /// A mapping begins at a page, and glibc puts a header of 16 bytes before the block.
    fn has_own_mapping(block: &[u8]) -> bool {
        block.as_ptr().addr() % 4096 == 16
    }

    #[test]
    fn a_large_block_has_its_own_mapping_also_after_others_were_freed() {
        return_large_blocks();
        let limit = usize::try_from(LARGE_BLOCK_LIMIT).expect("a size");
        for round in 0..2 {
            let blocks: Vec<Vec<u8>> = (0..8)
                .map(|number| Vec::with_capacity(limit + 1000 * number))
                .collect();
            let own = blocks.iter().filter(|block| has_own_mapping(block)).count();
            assert_eq!(own, blocks.len(), "in round {round}");
        }
    }
}
