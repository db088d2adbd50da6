//! A lock helper that ignores poisoning.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lock a mutex. The simulator's state stays valid after a panic of another thread, since no
/// invariant spans two critical sections.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
