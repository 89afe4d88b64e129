//! Memory that many tensors share.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use memmap2::{MmapMut, MmapRaw};

use super::Plain;
use crate::error::{Context, Result};

/// Bytes of a region that tensors share. Only what is touched becomes resident.
const REGION: usize = 64 << 20;

/// Bytes of a cache line, which no two tensors share.
const LINE: usize = 64;

/// Where numbers begin in a line, as they do in the system allocator's memory. From main memory, int8 and bfloat16 are
/// read up to a fifth faster so on Zen 4 than from the beginning of a line; from its caches, a tenth slower.
const START: usize = 16;

/// Numbers in memory of this process, in huge pages where the system has them.
///
/// In pages of 4 KiB, reading a model's weights waits for addresses to be translated (docs/limits.md). Most huge pages
/// have 2 MiB, and many tensors have less: they share regions.
pub(crate) struct Pooled<T: Plain> {
    region: Arc<MmapRaw>,
    /// In bytes.
    start: usize,
    len: usize,
    of: PhantomData<T>,
}

/// The region that tensors are put into at present, unless none of its tensors is left, and how many of its bytes were
/// given away.
struct Pool(Mutex<(Weak<MmapRaw>, usize)>);

static POOL: Pool = Pool::new();

impl<T: Plain> Pooled<T> {
    /// Memory for `len` numbers, all of them 0.
    ///
    /// # Errors
    /// The system does not give the memory.
    pub fn zeroed(len: usize) -> Result<Self> {
        const { assert!(START.is_multiple_of(align_of::<T>())) };
        let (region, start) = POOL.take(len.saturating_mul(size_of::<T>()))?;
        Ok(Self { region, start, len, of: PhantomData })
    }
}

impl Pool {
    const fn new() -> Self {
        Self(Mutex::new((Weak::new(), 0)))
    }

    /// A region with so many bytes that nobody else has or had, and where they begin. It is given back with the last
    /// that holds it.
    fn take(&self, bytes: usize) -> Result<(Arc<MmapRaw>, usize)> {
        if bytes >= REGION / 4 {
            return Ok((region(bytes.saturating_add(START))?, START));
        }
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = current.1.next_multiple_of(LINE) + START;
        if let Some(shared) = current.0.upgrade()
            && start + bytes <= shared.len()
        {
            current.1 = start + bytes;
            return Ok((shared, start));
        }
        let shared = region(REGION)?;
        *current = (Arc::downgrade(&shared), START + bytes);
        Ok((shared, START))
    }
}

/// Zeros that take no memory until they are touched.
fn region(bytes: usize) -> Result<Arc<MmapRaw>> {
    let map = MmapMut::map_anon(bytes).context(|| format!("cannot allocate {bytes} bytes for weights"))?;
    // Whether the system has huge pages changes nothing but time.
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    Ok(Arc::new(map.into()))
}

impl<T: Plain> Deref for Pooled<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `take` gave these bytes to `self` alone, within the region, which lives as long as `self`, and `zeroed`
        // found `START` fit for such a number. They were zeros, and any bytes are numbers of a `Plain` type.
        unsafe { std::slice::from_raw_parts(self.region.as_ptr().add(self.start).cast(), self.len) }
    }
}

impl<T: Plain> DerefMut for Pooled<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`; and whoever writes has `self` alone.
        unsafe { std::slice::from_raw_parts_mut(self.region.as_mut_ptr().add(self.start).cast(), self.len) }
    }
}

impl<T: Plain + fmt::Debug> fmt::Debug for Pooled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_one_writes_no_other_reads(lens in prop::collection::vec(0_usize..1 << 20, 1..80), kept in any::<u64>()) {
            let mut buffers: Vec<(u8, Pooled<u8>)> = Vec::new();
            for (i, &len) in lens.iter().enumerate() {
                let mut buffer = Pooled::<u8>::zeroed(len).unwrap();
                prop_assert!(buffer.len() == len && buffer.iter().all(|&byte| byte == 0));
                buffer.fill(i as u8 + 1);
                if kept >> (i % 64) & 1 == 1 {
                    buffers.push((i as u8 + 1, buffer));
                }
            }
            prop_assert!(buffers.iter().all(|(value, buffer)| buffer.iter().all(|byte| byte == value)));
        }
    }

    #[test]
    fn a_region_is_shared_and_given_back_with_the_last_of_it() {
        let pool = Pool::new();
        let (first, start) = pool.take(100).unwrap();
        let (second, next) = pool.take(100).unwrap();
        assert!(Arc::ptr_eq(&first, &second) && next >= start + 100, "{start} {next}");
        let region = Arc::downgrade(&first);
        drop(first);
        assert!(region.upgrade().is_some());
        drop(second);
        assert!(region.upgrade().is_none());
        assert_eq!(pool.take(100).unwrap().1, START);
    }

    #[test]
    fn large_ones_have_a_region_of_their_own_and_none_is_too_large_to_be_refused() {
        let mut large = Pooled::<f32>::zeroed(REGION / 16).unwrap();
        large.fill(1.0);
        assert_eq!((large[0], large.last(), large.region.len()), (1.0, Some(&1.0), large.len() * 4 + START));
        let error = Pooled::<f32>::zeroed(usize::MAX / 2).unwrap_err().to_string();
        assert!(error.contains("cannot allocate"), "{error}");
    }
}
