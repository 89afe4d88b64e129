//! Numbers of a tensor in main memory.

mod pooled;

use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::Arc;

use half::{bf16, f16};
use memmap2::{Advice, Mmap, UncheckedAdvice};

pub(crate) use pooled::Pooled;

/// The numbers of a tensor, in memory of this process or where a mapped file has them.
#[derive(Debug)]
pub(crate) enum Buffer<T: Plain> {
    Owned(Vec<T>),
    Pooled(Pooled<T>),
    Mapped(Mapped<T>),
}

/// Part of a mapped file, as numbers. When it is dropped, the system may take its pages back.
#[derive(Debug)]
pub(crate) struct Mapped<T: Plain> {
    map: Arc<Mmap>,
    range: Range<usize>,
    of: PhantomData<T>,
}

/// # Safety
/// Any bytes are a number of this type.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),*) => {
        $(
            // SAFETY: any bits are an integer, or a number, an infinity or a NaN.
            unsafe impl Plain for $type {}
        )*
    };
}
plain!(u8, i8, f32, bf16, f16);

impl<T: Plain> Buffer<T> {
    /// Bytes that are read from a mapped file.
    pub fn mapped_bytes(&self) -> usize {
        if let Self::Mapped(numbers) = self { numbers.range.len() } else { 0 }
    }

    /// The numbers in memory of this process.
    pub fn into_vec(self) -> Vec<T> {
        match self {
            Self::Owned(numbers) => numbers,
            other => other.to_vec(),
        }
    }
}

impl<T: Plain> Mapped<T> {
    /// `None` if the bytes leave the file, or are not whole numbers at an address for them, in this machine's order.
    pub fn new(map: &Arc<Mmap>, range: Range<usize>) -> Option<Self> {
        let bytes = map.get(range.clone())?;
        let is_aligned = (bytes.as_ptr() as usize).is_multiple_of(align_of::<T>());
        let is_whole = bytes.len().is_multiple_of(size_of::<T>());
        let is_in_order = cfg!(target_endian = "little") || size_of::<T>() == 1;
        (is_aligned && is_whole && is_in_order).then(|| Self { map: Arc::clone(map), range, of: PhantomData })
    }

    /// Gives the pages of a range of its bytes back to the system.
    pub fn forget(&self, bytes: Range<usize>) {
        assert!(bytes.start <= bytes.end && bytes.end <= self.range.len(), "{bytes:?} is not part of the numbers");
        let (from, to) = (self.range.start + bytes.start, self.range.start + bytes.end);
        // SAFETY: the range lies within the map, which nothing writes to: a page that is dropped comes back from the
        // file with the same content, also one that another tensor shares.
        let _ = unsafe { self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, from, to - from) };
    }

    /// Asks the system to begin reading the pages from the disk. Whether it does changes nothing but time.
    pub fn read_ahead(&self) {
        let _ = self.map.advise_range(Advice::WillNeed, self.range.start, self.range.len());
    }
}

impl<T: Plain> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Owned(numbers) => numbers,
            Self::Pooled(numbers) => numbers,
            Self::Mapped(numbers) => numbers,
        }
    }
}

impl<T: Plain> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        Self::Owned(self.to_vec())
    }
}

impl<T: Plain + PartialEq> PartialEq for Buffer<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Plain> Deref for Mapped<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let bytes = &self.map[self.range.clone()];
        // SAFETY: `new` found the bytes aligned and of whole numbers, and any bytes are numbers of a `Plain` type. The map
        // is read-only and lives as long as `self`. No program that maps weights can keep another
        // process from writing to the file or cutting it short: numbers that are changed so are simply other numbers,
        // and pages that are gone end the process.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
    }
}

impl<T: Plain> Drop for Mapped<T> {
    fn drop(&mut self) {
        self.forget(0..self.range.len());
    }
}
