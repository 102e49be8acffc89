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
