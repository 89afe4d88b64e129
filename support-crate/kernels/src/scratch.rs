//! Memory that an operation needs for a moment, kept for the next one.
//!
//! A prompt of a thousand tokens needs some ten MiB in every operation. Fresh from the system, each page
//! of that is zeroed when it is first touched, which takes as long as a quarter of the arithmetic.

use std::ops::{Deref, DerefMut, Range};

use half::bf16;

/// A slice that goes back to the process's store when it is dropped. It starts at a cache line: vectors that straddle
/// two lines take twice as long to load.
pub struct Scratch<T: Reused> {
    memory: Vec<T>,
    slice: Range<usize>,
}

/// Bytes in a line of the cache, and in the widest vector.
const LINE: usize = 64;

/// A few numbers that start at a cache line, too.
#[repr(align(64))]
pub struct Aligned<T>(pub T);
const _: () = assert!(align_of::<Aligned<u8>>() == LINE);

/// A type of numbers whose slices are reused.
pub trait Reused: Copy + Default + 'static {
    fn with_store<R>(run: impl FnOnce(&mut Vec<Vec<Self>>) -> R) -> R;
}

/// How many slices of a type are kept, some for each thread and some for the step, and how many bytes they may have in
/// total.
const MAX_SLICES: usize = 64;
const MAX_BYTES: usize = 64 << 20;

/// Makes slices of some types reusable.
macro_rules! reused {
    ($($type:ty),*) => {
        $(impl $crate::scratch::Reused for $type {
            fn with_store<R>(run: impl FnOnce(&mut Vec<Vec<Self>>) -> R) -> R {
                // Not one for each thread: where the library was loaded by `dlopen`, as a notebook's kernel does, glibc
                // before 2.39 is slow to find thread-local variables (its bug 19924).
                static STORE: std::sync::Mutex<Vec<Vec<$type>>> = std::sync::Mutex::new(Vec::new());
                run(&mut STORE.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
            }
        })*
    };
}
pub(crate) use reused;
reused!(f32, bf16, i8, u8, i32);
// For a test that no other test may disturb.
#[cfg(test)]
reused!(u64);

impl<T: Reused> Scratch<T> {
    /// A slice of `len` numbers, whose values are unspecified: what an earlier use left there.
    ///
    /// # Panics
    /// There is no memory for them.
    pub fn uninit(len: usize) -> Self {
        let room = len.saturating_add(LINE / size_of::<T>());
        let mut kept = T::with_store(|store| {
            // The smallest that is large enough, else the largest.
            let large_enough = store.iter().enumerate().filter(|(_, kept)| kept.capacity() >= room);
            let best = large_enough.min_by_key(|(_, kept)| kept.capacity()).map(|(index, _)| index);
            let best = best.or_else(|| (0..store.len()).max_by_key(|&index| store[index].capacity()));
            best.map(|index| store.swap_remove(index)).unwrap_or_default()
        });
        if kept.capacity() < room {
            // What is in it need not be copied.
            kept = Vec::new();
            kept.try_reserve_exact(room).unwrap_or_else(|_| panic!("cannot allocate {len} numbers"));
        }
        // It does not shrink: what it grows by is written.
        if kept.len() < room {
            kept.resize(room, T::default());
        }
        let start = kept.as_ptr().align_offset(LINE).min(room - len);
        Self { memory: kept, slice: start..start + len }
    }

    /// Forgets all but the first `len` numbers.
    pub fn truncate(&mut self, len: usize) {
        self.slice.end = self.slice.start + len.min(self.slice.len());
    }
}

impl<T: Reused> Drop for Scratch<T> {
    fn drop(&mut self) {
        let kept = std::mem::take(&mut self.memory);
        T::with_store(|store| {
            let numbers: usize = store.iter().map(Vec::capacity).sum();
            if store.len() < MAX_SLICES && size_of::<T>() * (numbers + kept.capacity()) <= MAX_BYTES {
                store.push(kept);
            }
        });
    }
}

impl<T: Reused> Deref for Scratch<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.memory[self.slice.clone()]
    }
}

impl<T: Reused> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.slice.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_and_two_never_share_it() {
        let (mut a, mut b) = (Scratch::<u64>::uninit(1000), Scratch::<u64>::uninit(1000));
        a.fill(1);
        b.fill(2);
        assert!(a.iter().all(|&x| x == 1) && b.iter().all(|&x| x == 2));
        let place = a.as_ptr();
        assert_eq!((place.align_offset(LINE), b.as_ptr().align_offset(LINE)), (0, 0));
        drop(a);
        let again = Scratch::<u64>::uninit(500);
        assert_eq!((again.as_ptr(), again.len()), (place, 500));
        assert_eq!(Scratch::<u64>::uninit(2000).len(), 2000);
    }
}
