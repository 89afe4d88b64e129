//! How fast this machine reads memory: the processor's, and a GPU's own.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::Instant;

use quantlab_kernels::{ThreadScope, thread_scope};

use super::available_memory;
use crate::error::{Error, Result};
use crate::model::{Device, GpuBuffer};

/// What a pass reads if memory allows: about as much as the weights of GPT-2 in float32.
const BUFFER: usize = 512 << 20;

/// A buffer is at least this many times the cache, so that little of it is still there in the next pass.
const TIMES_CACHE: usize = 4;

/// A buffer takes at most one part in this many of the free memory, unless the cache asks for a larger one.
const PART_OF_FREE: usize = 8;

/// Where Linux describes the caches of a processor.
const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";

/// For machines that do not say how large their cache is.
const USUAL_CACHE: usize = 32 << 20;

/// Passes before the first one that counts.
const WARMUP: usize = 2;

/// Reads memory on request, so that its bandwidth can be measured in turn with work that it limits. A machine's
/// bandwidth drifts by more than the work is apart from its limit: only a ratio made round by round says how close it came.
///
/// ```
/// use quantlab::measure::MemoryReader;
///
/// let memory = MemoryReader::new()?;
/// println!("{:.1} GB/s", memory.gb_per_s());
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug)]
pub struct MemoryReader(Memory);

/// What is read.
#[derive(Debug)]
enum Memory {
    Processor(Vec<u64>),
    Gpu(GpuBuffer),
}

impl MemoryReader {
    /// A reader of the processor's memory: [`of`](Self::of) the CPU.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn new() -> Result<Self> {
        Self::of(Device::Cpu)
    }

    /// A reader of the memory that models on a device have their weights in. It allocates a buffer of several times the
    /// cache, and reads it twice, front to back: the processor's with the threads that compute
    /// ([`threads`](super::threads)), a GPU's with libtorch's own sum.
    ///
    /// # Errors
    /// Too little free memory for a buffer that does not fit into the cache; a GPU that libtorch cannot use.
    pub fn of(device: Device) -> Result<Self> {
        let memory = if device.is_cpu() {
            let cache = cache_bytes(Path::new(CACHES));
            Memory::Processor(buffer(buffer_bytes(cache, available_memory())?)?)
        } else {
            Memory::Gpu(GpuBuffer::new(device)?)
        };
        let reader = Self(memory);
        for _ in 0..WARMUP {
            reader.pass()?;
        }
        Ok(reader)
    }

    /// The bandwidth now, in 10^9 bytes per second: the fastest of three passes, some 50 ms on a processor. 0 if a GPU
    /// fails, for which [`measure`](Self::measure) has an error.
    pub fn gb_per_s(&self) -> f64 {
        self.measure().unwrap_or(0.0)
    }

    /// The same.
    ///
    /// # Errors
    /// The GPU failed.
    pub fn measure(&self) -> Result<f64> {
        (0..3).try_fold(0.0, |fastest, _| Ok(self.pass()?.max(fastest)))
    }

    fn pass(&self) -> Result<f64> {
        // Threads that would be started for each pass would take a part of its time.
        let scope = thread_scope();
        let start = Instant::now();
        let bytes = match &self.0 {
            Memory::Processor(buffer) => {
                black_box(read(black_box(buffer), &scope, scope.threads()));
                size_of_val(buffer.as_slice())
            }
            Memory::Gpu(buffer) => buffer.read()?,
        };
        Ok(bytes as f64 / start.elapsed().as_secs_f64() / 1e9)
    }
}

/// The size of the buffer, given that of the cache and of the free memory, all in bytes.
fn buffer_bytes(cache: Option<usize>, free: Option<usize>) -> Result<usize> {
    let needed = TIMES_CACHE * cache.unwrap_or(USUAL_CACHE);
    let free = free.unwrap_or(usize::MAX);
    if free < 2 * needed {
        return Err(Error::system(format!(
            "measuring the memory bandwidth takes {} MiB and leaves as much free, but only {} MiB are free",
            needed >> 20,
            free >> 20
        ))
        .hint(format!("make {} MiB available: drop models that are no longer needed", (2 * needed) >> 20)));
    }
    Ok(needed.max(BUFFER.min(free / PART_OF_FREE)))
}

/// A buffer of ones. Zeros would not do: the system maps fresh zeros to one and the same page.
fn buffer(bytes: usize) -> Result<Vec<u64>> {
    let len = bytes / size_of::<u64>();
    let mut buffer = Vec::new();
    let reserved = buffer.try_reserve_exact(len);
    reserved.map_err(|cause| Error::system(format!("cannot allocate a buffer of {} MiB: {cause}", bytes >> 20)))?;
    buffer.resize(len, 1);
    Ok(buffer)
}

/// The sum of the buffer, which takes reading all of it, in so many pieces: as many as threads, and each reads one.
fn read(buffer: &[u64], scope: &ThreadScope, pieces: usize) -> u64 {
    let (size, total) = (buffer.len().div_ceil(pieces).max(1), AtomicU64::new(0));
    scope.split(pieces, 1, size, &|some| {
        for piece in buffer.chunks(size).skip(some.start).take(some.len()) {
            total.fetch_add(sum(piece), Ordering::Relaxed);
        }
    });
    total.into_inner()
}

/// The sum, in lanes that do not wait for each other.
fn sum(values: &[u64]) -> u64 {
    const LANES: usize = 16;
    let (blocks, tail) = values.as_chunks::<LANES>();
    let mut lanes = [0_u64; LANES];
    for block in blocks {
        for (lane, &value) in lanes.iter_mut().zip(block) {
            *lane = lane.wrapping_add(value);
        }
    }
    lanes.iter().chain(tail).copied().fold(0, u64::wrapping_add)
}

/// The size of all last-level caches that this process can use, from the folder where Linux describes
/// those of one processor.
fn cache_bytes(folder: &Path) -> Option<usize> {
    let indices = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let read = |index: &Path, name: &str| fs::read_to_string(index.join(name)).ok();
    let level = |index: &Path| read(index, "level")?.trim().parse::<u32>().ok();
    let last = indices.max_by_key(|index| level(index))?;
    let kib: usize = read(&last, "size")?.trim().strip_suffix('K')?.parse().ok()?;
    // A processor of many cores has several, each for some of them.
    let sharing = listed(read(&last, "shared_cpu_list")?.trim())?;
    let processors = available_parallelism().map_or(1, usize::from);
    Some(kib * 1024 * processors.div_ceil(sharing))
}

/// How many numbers a list such as `0-3,8-11` has.
fn listed(list: &str) -> Option<usize> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)? + 1)
    };
    list.split(',').map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_read_once() {
        let scope = thread_scope();
        // The last ones are worth several threads.
        for len in [0, 1, 15, 1000, 4099, 300_001] {
            let values: Vec<u64> = (1..=len).collect();
            for pieces in [1, 2, 3, 7] {
                assert_eq!(read(&values, &scope, pieces), len * (len + 1) / 2, "{len} values, {pieces} pieces");
            }
        }
        assert_eq!(read(&[u64::MAX, 2], &scope, 1), 1);
    }

    #[test]
    fn the_buffer_is_larger_than_the_cache_and_leaves_memory_free() {
        let mib = |mib: usize| mib << 20;
        assert_eq!(buffer_bytes(Some(mib(8)), Some(mib(16_000))).unwrap(), BUFFER);
        assert_eq!(buffer_bytes(Some(mib(384)), Some(mib(64_000))).unwrap(), mib(4 * 384));
        assert_eq!(buffer_bytes(Some(mib(8)), Some(mib(2048))).unwrap(), mib(256));
        // A part of a server: little memory, and all of a large cache.
        assert_eq!(buffer_bytes(Some(mib(105)), Some(mib(2048))).unwrap(), mib(420));
        assert_eq!(buffer_bytes(None, None).unwrap(), BUFFER);
        assert_eq!(buffer_bytes(Some(mib(105)), Some(mib(840))).unwrap(), mib(420));
        let error = buffer_bytes(Some(mib(105)), Some(mib(839))).unwrap_err();
        assert!(
            error.to_string().contains("takes 420 MiB and leaves as much free, but only 839 MiB are free"),
            "{error}"
        );
        assert!(error.hint_text().is_some_and(|hint| hint.contains("make 840 MiB available")));
    }

    #[test]
    fn the_last_level_is_found_and_counted_as_often_as_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(cache_bytes(folder.path()), None);
        let processors = available_parallelism().unwrap().get();
        let levels = [("index0", "1", "48K", "0"), ("index3", "3", "32768K", "0,64"), ("index2", "2", "1024K", "0")];
        for (index, level, size, shared) in levels {
            let index = folder.path().join(index);
            fs::create_dir(&index).unwrap();
            for (name, content) in [("level", level), ("size", size), ("shared_cpu_list", shared)] {
                fs::write(index.join(name), format!("{content}\n")).unwrap();
            }
        }
        assert_eq!(cache_bytes(folder.path()), Some((32 << 20) * processors.div_ceil(2)));
        fs::write(folder.path().join("index3/size"), "large").unwrap();
        assert_eq!(cache_bytes(folder.path()), None);
    }

    #[test]
    fn lists_of_processors_are_counted() {
        let lists = [("0", Some(1)), ("0-3,8-11", Some(8)), ("0,2,5", Some(3)), ("", None), ("3-1", None)];
        for (list, count) in lists {
            assert_eq!(listed(list), count, "{list}");
        }
    }
}
