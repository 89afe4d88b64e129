//! Products with Intel's AMX: tile registers of 16 rows of 64 bytes, of which one instruction multiplies two.
//!
//! From a product's entry to its tile instruction: [`multiply`] divides the rows of weights among threads, a thread's
//! part takes 32 rows at a time, as they are stored or decoded to a panel, and [`Tiles::multiply_add`] multiplies them
//! with 32 inputs, which [`TileInputs`](inputs::TileInputs) has brought into the order that the instruction wants.
//!
//! Stable Rust knows neither these instructions nor how to detect them: the former are `asm!`, and [`Amx`] is the proof
//! that they may be used. Where a processor has none, its tests run by emulation. On two cores of a Sapphire Rapids,
//! products of 128 rows in bfloat16 reach 910 to 1110 GFLOP/s, where AVX-512 reaches 150 to 160
//! (`cargo bench -p quantlab-kernels --bench amx`).
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18, and volume 2.

mod inputs;
mod product;
mod trial;

#[cfg(all(test, target_os = "linux"))]
mod emulator;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _xgetbv};
use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::OnceLock;

use half::bf16;

use crate::simd::Avx512Bf16;

pub use product::{TileProduct, multiply};
pub use trial::chosen;

/// Products of fewer rows of inputs than these are left to AVX-512.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MinRows {
    /// Of products of bfloat16, to which weights of 4 bits are decoded too.
    pub bf16: usize,
    /// Of products of bytes.
    pub int8: usize,
}

/// Where AMX is asked for by name; else [`trial`] decides.
///
/// Products of a few rows are limited by reading the weights, which AVX-512 does without reordering anything. On two
/// cores of a Sapphire Rapids, 8 rows of bfloat16 take 0.8 to 0.9 of AVX-512's time in tiles, and 4 rows 1.3 to 1.4 times
/// as long; 32 rows of bytes 0.85, and 16 rows 1.1 to 1.3.
const MIN_ROWS: MinRows = MinRows { bf16: 8, int8: 32 };

/// For products that are never computed in tiles.
const NEVER: usize = usize::MAX;

/// Proof that the processor has AMX for bfloat16 and bytes, and that this process may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amx {
    /// What is not multiplied in tiles is computed with these.
    vectors: Avx512Bf16,
    min_rows: MinRows,
}

impl Amx {
    /// Asks the processor and, once per process, the system: tiles add 8 KiB to the state that it saves for each thread
    /// that uses them, so it grants them only on request.
    pub fn detect() -> Option<Self> {
        static FOUND: OnceLock<Option<Amx>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let vectors = Avx512Bf16::detect().filter(|_| Self::is_offered())?;
            may_use_tiles().then(|| Self::new(vectors))
        })
    }

    /// Whether the processor has tiles and the system saves them. This does not ask the system for permission to use
    /// them.
    fn is_offered() -> bool {
        cfg!(target_os = "linux") && Avx512Bf16::detect().is_some_and(has_amx)
    }

    /// Emulated where the processor lacks it; `None` where it lacks AVX-512 too.
    #[cfg(test)]
    pub fn emulated() -> Option<Self> {
        #[cfg(target_os = "linux")]
        if Self::detect().is_none() {
            emulator::install();
            return Avx512Bf16::detect().map(Self::new);
        }
        Self::detect()
    }

    fn new(vectors: Avx512Bf16) -> Self {
        Self { vectors, min_rows: MIN_ROWS }
    }

    /// The same, for products of at least `rows` rows of inputs; for measurements and tests.
    pub fn with_min_rows(self, rows: usize) -> Self {
        self.with(MinRows { bf16: rows, int8: rows })
    }

    fn with(self, min_rows: MinRows) -> Self {
        Self { min_rows, ..self }
    }

    /// Whether a product of `m` rows of inputs in bfloat16 is computed in tiles. This is decided by all rows of a product,
    /// not by those of a part of it, because the numbers of a row depend on it.
    pub fn takes(self, m: usize) -> bool {
        m >= self.min_rows.bf16
    }

    /// The same of a product of bytes, whose numbers do not depend on it.
    pub fn takes_bytes(self, m: usize) -> bool {
        m >= self.min_rows.int8
    }

    /// Whether products of bfloat16, of enough rows, are computed in tiles.
    pub fn ever_takes(self) -> bool {
        self.min_rows.bf16 < NEVER
    }

    /// The same of products of bytes.
    pub fn ever_takes_bytes(self) -> bool {
        self.min_rows.int8 < NEVER
    }

    /// Multiplies 32 rows with 32 others, which lie in the first-level cache, on this thread, so many times; returns how
    /// many multiply-adds one time is.
    pub fn multiply_adds<T: TileNumber>(self, passes: usize) -> usize {
        const STEPS: usize = 16;
        let (weights, inputs) =
            (vec![T::default(); STEPS * T::PER_ROW], vec![T::default(); STEPS * BLOCK * T::PER_ROW]);
        // All rows of weights are one.
        let operands =
            Operands { weights: &weights[..], weights_stride: 0, inputs: &inputs[..], input_tiles: 2, steps: STEPS };
        let (tiles, mut sums) = (self.tiles(), Sums::ZERO);
        for _ in 0..passes {
            tiles.multiply_add(black_box(operands), &mut sums);
        }
        black_box(&sums);
        BLOCK * BLOCK * STEPS * T::PER_ROW
    }

    /// The vector instructions that this processor also has.
    pub fn vectors(self) -> Avx512Bf16 {
        self.vectors
    }

    /// Configures this thread's tiles until the guard is dropped. A thread has one guard at a time.
    fn tiles(self) -> Tiles {
        // SAFETY: this process may use tiles, as `self` proves; the configuration is one of palette 1, which every
        // processor with AMX has: 8 tiles of at most 16 rows of at most 64 bytes.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &WHOLE_TILES, options(readonly, nostack, preserves_flags)) }
        Tiles { _of_this_thread: PhantomData }
    }
}

/// Whether CPUID has AMX's tiles, bfloat16 and int8, and the system saves tiles with the rest of a thread's state.
fn has_amx(_: Avx512Bf16) -> bool {
    let features = __cpuid_count(7, 0).edx;
    let [bf16, tile, int8] = [22, 24, 25].map(|bit| features >> bit & 1 == 1);
    // SAFETY: a processor's AVX-512 is only detected where the system has turned on XSAVE, and XGETBV with it.
    let saved = unsafe { _xgetbv(0) };
    bf16 && tile && int8 && saved >> 17 & 0b11 == 0b11
}

/// `arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)`, for all threads of this process. Systems before Linux 5.16
/// refuse.
fn may_use_tiles() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    const XFEATURE_XTILEDATA: i64 = 18;
    let result: i64;
    // SAFETY: a system call that changes only what this process may use; the system overwrites rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result == 0
}

/// Rows of a tile.
const TILE_ROWS: usize = 16;

/// Bytes in a row of a tile.
const TILE_BYTES: usize = 64;

/// Rows of weights, and inputs, that are multiplied at once: two tiles of each, for four tiles of sums.
pub const BLOCK: usize = 2 * TILE_ROWS;

/// What LDTILECFG reads.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// All tiles as large as they can be: whatever does not fill one is padded with zeros, so this configuration always
/// fits.
static WHOLE_TILES: TileConfig = {
    let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
    let mut tile = 0;
    while tile < 8 {
        row_bytes[tile] = TILE_BYTES as u16;
        rows[tile] = TILE_ROWS as u8;
        tile += 1;
    }
    TileConfig { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows }
};

/// This thread's tiles, configured while a part of a product is computed. Other code never runs with tiles configured:
/// the system has 8 KiB more to save for a thread that uses them.
struct Tiles {
    _of_this_thread: PhantomData<*mut ()>,
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: `Amx::tiles` is the only constructor, so the instruction is there; what tiles hold is not needed.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) }
    }
}

/// The sums of products of 32 rows of weights with 32 inputs, as the bits of float32 or int32: for each 16 inputs, and
/// within these for each 16 rows of weights, a tile with a row for each row of weights and a column for each input.
#[derive(Clone)]
#[repr(C, align(64))]
struct Sums([[[[u32; TILE_ROWS]; TILE_ROWS]; 2]; 2]);

impl Sums {
    const ZERO: Self = Self([[[[0; TILE_ROWS]; TILE_ROWS]; 2]; 2]);
}

/// What is multiplied for [`Sums`].
#[derive(Clone, Copy)]
struct Operands<'a, T> {
    /// 32 rows of weights.
    weights: &'a [T],
    /// Numbers from one row to the next.
    weights_stride: usize,
    /// For each step a tile of inputs, or two.
    inputs: &'a [T],
    /// 1 or 2.
    input_tiles: usize,
    /// How often 64 bytes of each row of weights are multiplied.
    steps: usize,
}

impl Tiles {
    /// `sums[j][i] += weights[i] * inputs[j]`, along `steps` rows of tiles.
    #[inline]
    fn multiply_add<T: TileNumber>(&self, operands: Operands<'_, T>, sums: &mut Sums) {
        let Operands { weights, weights_stride, inputs, input_tiles, steps } = operands;
        assert!(steps > 0 && (1..=2).contains(&input_tiles), "{input_tiles} tiles of inputs, {steps} steps");
        assert!(weights.len() >= (BLOCK - 1) * weights_stride + steps * T::PER_ROW, "rows of weights");
        assert!(inputs.len() >= input_tiles * steps * TILE_ROWS * T::PER_ROW, "tiles of inputs");
        // SAFETY: the tiles of this thread are configured, as `self` proves, and the lengths were just checked.
        unsafe { T::multiply_add(operands, sums) }
    }
}

/// Numbers that tiles consist of.
///
/// # Safety
/// Any bit pattern is a valid number.
pub unsafe trait TileNumber: Copy + Default + Send + Sync {
    /// Numbers in a row of a tile.
    const PER_ROW: usize = TILE_BYTES / size_of::<Self>();

    /// [`Tiles::multiply_add`]
    ///
    /// # Safety
    /// The tiles of this thread are configured as [`WHOLE_TILES`]; the slices in `operands` are as long as their
    /// strides and steps say; there is at least one step.
    #[expect(private_interfaces, reason = "called by `Tiles` alone")]
    unsafe fn multiply_add(operands: Operands<'_, Self>, sums: &mut Sums);
}

/// Tiles 0 to 3 are sums, 4 and 5 weights, 6 and 7 inputs. The whole loop is one block of assembly, because the
/// compiler does not promise to preserve the contents of a tile from one block to the next.
macro_rules! tile_number {
    ($number:ty, $multiply_add:literal) => {
        // SAFETY: an integer, or 16 bits of which each pattern is a bfloat16.
        unsafe impl TileNumber for $number {
            #[inline]
            #[expect(private_interfaces, reason = "called by `Tiles` alone")]
            unsafe fn multiply_add(operands: Operands<'_, Self>, sums: &mut Sums) {
                let Operands { weights, weights_stride, inputs, input_tiles, steps } = operands;
                let (weights, weights_stride) = (weights.as_ptr(), size_of::<Self>() * weights_stride);
                let second = weights.wrapping_byte_add(TILE_ROWS * weights_stride);
                if input_tiles == 2 {
                    // SAFETY: the caller vouches for the tiles, for 32 rows of weights and for two tiles of inputs in
                    // each step; `sums` is four tiles.
                    unsafe {
                        asm!(
                            "tileloadd tmm0, [{sums} + {row}*1]",
                            "tileloadd tmm1, [{sums} + {row}*1 + 1024]",
                            "tileloadd tmm2, [{sums} + {row}*1 + 2048]",
                            "tileloadd tmm3, [{sums} + {row}*1 + 3072]",
                            "2:",
                            "tileloadd tmm4, [{first} + {stride}*1]",
                            "tileloadd tmm6, [{inputs} + {row}*1]",
                            concat!($multiply_add, " tmm0, tmm4, tmm6"),
                            "tileloadd tmm5, [{second} + {stride}*1]",
                            concat!($multiply_add, " tmm1, tmm5, tmm6"),
                            "tileloadd tmm7, [{inputs} + {row}*1 + 1024]",
                            concat!($multiply_add, " tmm2, tmm4, tmm7"),
                            concat!($multiply_add, " tmm3, tmm5, tmm7"),
                            "add {first}, 64",
                            "add {second}, 64",
                            "add {inputs}, 2048",
                            "dec {steps}",
                            "jnz 2b",
                            "tilestored [{sums} + {row}*1], tmm0",
                            "tilestored [{sums} + {row}*1 + 1024], tmm1",
                            "tilestored [{sums} + {row}*1 + 2048], tmm2",
                            "tilestored [{sums} + {row}*1 + 3072], tmm3",
                            first = inout(reg) weights => _,
                            second = inout(reg) second => _,
                            inputs = inout(reg) inputs.as_ptr() => _,
                            steps = inout(reg) steps => _,
                            stride = in(reg) weights_stride,
                            row = in(reg) TILE_BYTES,
                            sums = in(reg) sums,
                            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                            options(nostack),
                        );
                    }
                } else {
                    // SAFETY: the caller vouches for the tiles, for 32 rows of weights and for a tile of inputs in
                    // each step; of the four tiles of `sums`, two are used.
                    unsafe {
                        asm!(
                            "tileloadd tmm0, [{sums} + {row}*1]",
                            "tileloadd tmm1, [{sums} + {row}*1 + 1024]",
                            "2:",
                            "tileloadd tmm4, [{first} + {stride}*1]",
                            "tileloadd tmm6, [{inputs} + {row}*1]",
                            concat!($multiply_add, " tmm0, tmm4, tmm6"),
                            "tileloadd tmm5, [{second} + {stride}*1]",
                            concat!($multiply_add, " tmm1, tmm5, tmm6"),
                            "add {first}, 64",
                            "add {second}, 64",
                            "add {inputs}, 1024",
                            "dec {steps}",
                            "jnz 2b",
                            "tilestored [{sums} + {row}*1], tmm0",
                            "tilestored [{sums} + {row}*1 + 1024], tmm1",
                            first = inout(reg) weights => _,
                            second = inout(reg) second => _,
                            inputs = inout(reg) inputs.as_ptr() => _,
                            steps = inout(reg) steps => _,
                            stride = in(reg) weights_stride,
                            row = in(reg) TILE_BYTES,
                            sums = in(reg) sums,
                            out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm5") _, out("tmm6") _,
                            options(nostack),
                        );
                    }
                }
            }
        }
    };
}
// Sums of products of pairs in float32. Numbers too small to be normal count as 0.
tile_number!(bf16, "tdpbf16ps");
// Sums of products of four signed bytes in int32, exact.
tile_number!(i8, "tdpbssd");
