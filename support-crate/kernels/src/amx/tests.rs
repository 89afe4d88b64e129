//! Tests of tiles, emulated where the processor lacks them, and of what products computed in them promise.

use super::inputs::{TileInputs, transpose};
use super::*;
use crate::isa::Isa;
use crate::matmul::{self, ActivationQuant, Compute, Epilogue, Matrix, Packed4Bit, PackedInt8};
use crate::scratch::Scratch;
use crate::test_numbers::{assert_close, numbers};
use crate::threads::thread_scope;

fn bytes(count: usize, seed: u32) -> Vec<i8> {
    numbers(count, seed).iter().map(|x| (x * 127.0).round() as i8).collect()
}

fn rounded(x: &[f32]) -> Vec<bf16> {
    x.iter().map(|&x| bf16::from_f32(x)).collect()
}

/// The sums, as bits, of 32 rows of weights with up to 32 inputs: (m, 32).
fn tile_sums<T: TileNumber + crate::scratch::Reused>(amx: Amx, weights: &[T], x: &[T], k: usize) -> Vec<u32> {
    let inputs = TileInputs::new(amx, &thread_scope(), x, k);
    let group = inputs.group(0);
    let operands = Operands {
        weights,
        weights_stride: k,
        inputs: group.tiles_at(0),
        input_tiles: group.tiles,
        steps: k / T::PER_ROW,
    };
    let mut sums = Sums::ZERO;
    amx.tiles().multiply_add(operands, &mut sums);
    let sum = |m: usize, n: usize| sums.0[m / TILE_ROWS][n / TILE_ROWS][n % TILE_ROWS][m % TILE_ROWS];
    (0..x.len() / k).flat_map(|m| (0..BLOCK).map(move |n| sum(m, n))).collect()
}

#[test]
fn tiles_are_transposed() {
    let Some(_) = Amx::emulated() else { return };
    let number = |row: usize, column: usize| (row * TILE_ROWS + column) as u32;
    let mut tile = std::array::from_fn(|row| std::array::from_fn(|column| number(row, column)));
    // SAFETY: the processor has AVX-512, else there would be no emulated AMX.
    unsafe { transpose(&mut tile) };
    assert_eq!(tile, std::array::from_fn(|row| std::array::from_fn(|column| number(column, row))));
}

#[test]
fn inputs_are_where_tiles_want_them_and_padding_is_zero() {
    let Some(amx) = Amx::emulated() else { return };
    for (m, k) in [(1, 1), (16, 64), (17, 65), (33, 100), (50, 130)] {
        let x: Vec<i8> = (0..m * k).map(|i| (i % 127) as i8 + 1).collect();
        // What is left over from something else is overwritten.
        Scratch::<i8>::uninit(1 << 16).fill(99);
        let inputs = TileInputs::new(amx, &thread_scope(), &x, k);
        for group in 0..inputs.groups() {
            let tiles = inputs.group(group).tiles;
            assert_eq!(tiles, if m - group * BLOCK > TILE_ROWS { 2 } else { 1 });
            for (step, numbers) in inputs.group(group).tiles_at(0).chunks_exact(1024 * tiles).enumerate() {
                if step >= k.div_ceil(64) {
                    break;
                }
                for (at, &number) in numbers.iter().enumerate() {
                    let (tile, row, input, byte) = (at / 1024, at / 64 % 16, at / 4 % 16, at % 4);
                    let (m_at, k_at) = (group * BLOCK + tile * TILE_ROWS + input, step * 64 + row * 4 + byte);
                    let expected = if m_at < m && k_at < k { x[m_at * k + k_at] } else { 0 };
                    assert_eq!(number, expected, "({m}, {k}): input {m_at}, column {k_at}");
                }
            }
        }
    }
}

#[test]
fn tiles_of_bytes_are_multiplied_exactly() {
    let Some(amx) = Amx::emulated() else { return };
    for (m, k) in [(1, 64), (16, 128), (17, 64), (32, 192)] {
        let (mut weights, mut x) = (bytes(BLOCK * k, 1), bytes(m * k, 2));
        (weights[0], x[0]) = (-128, -128);
        let dot = |(w, x): (&[i8], &[i8])| w.iter().zip(x).map(|(w, x)| i32::from(*w) * i32::from(*x)).sum::<i32>();
        let expected = x.chunks_exact(k).flat_map(|x| weights.chunks_exact(k).map(move |weights| (weights, x)));
        let expected: Vec<u32> = expected.map(|pair| dot(pair).cast_unsigned()).collect();
        assert_eq!(tile_sums(amx, &weights, &x, k), expected, "({m}, {k})");
    }
}

/// The order of additions, and the numbers that count as 0, as the manual specifies them. On a processor with AMX this
/// shows whether the emulator does the same.
#[test]
fn tiles_of_bfloat16_are_multiplied_as_the_manual_says() {
    let Some(amx) = Amx::emulated() else { return };
    let product = |pairs: &[(f32, f32)]| {
        let (mut weights, mut x) = (vec![bf16::ZERO; BLOCK * 32], vec![bf16::ZERO; 32]);
        for (i, &(a, b)) in pairs.iter().enumerate() {
            (weights[i], x[i]) = (bf16::from_f32(a), bf16::from_f32(b));
        }
        f32::from_bits(tile_sums(amx, &weights, &x, 32)[0])
    };
    // First and second numbers of pairs have sums of their own: 2^24 with nothing, and 3 = 1 + 1 + 1; one after the
    // other, each 1 would be lost beside 2^24.
    assert_eq!(product(&[(4096.0, 4096.0), (1.0, 1.0), (0.0, 0.0), (1.0, 1.0), (0.0, 0.0), (1.0, 1.0)]), 16_777_220.0);
    // Here they are lost: all are first numbers.
    assert_eq!(product(&[(4096.0, 4096.0), (0.0, 0.0), (1.0, 1.0), (0.0, 0.0), (1.0, 1.0)]), 16_777_216.0);
    // Products are not rounded before they are added: (1 + 2^-7)^2 - (1 + 2^-6) = 2^-14.
    assert_eq!(product(&[(1.0 + 1.0 / 64.0, -1.0), (0.0, 0.0), (1.0 + 1.0 / 128.0, 1.0 + 1.0 / 128.0)]), 1.0 / 16384.0);
    let smallest = f32::MIN_POSITIVE;
    assert_eq!(product(&[(smallest, 1.0)]), smallest);
    assert_eq!(product(&[(smallest / 2.0, 1e30)]), 0.0, "a factor that is too small counts as 0");
    assert_eq!(product(&[(smallest, 0.5), (smallest, 0.5)]), 0.0, "so does a sum, before another is added");
    assert!(product(&[(f32::NAN, 0.0)]).is_nan() && product(&[(f32::INFINITY, 0.0)]).is_nan());
}

/// The instructions that products do not use, and the address of an operand in all its parts.
#[test]
fn the_emulator_knows_the_other_instructions() {
    let Some(amx) = Amx::emulated() else { return };
    let (a, b, mut sums, mut config) = ([[200_u8; 64]; 16], [[3_u8; 64]; 16], [[0_i32; 16]; 17], [0_u8; 64]);
    let _tiles = amx.tiles();
    macro_rules! multiply {
        ($instruction:literal) => {{
            // SAFETY: tiles are configured as 16 rows of 64 bytes, as are `a`, `b`, and `sums` from its second row on.
            unsafe {
                asm!(
                    "tilezero tmm0",
                    "tileloadd tmm5, [{a} + {half}*2]",
                    "tileloaddt1 tmm7, [{b} + {half}*2]",
                    concat!($instruction, " tmm0, tmm5, tmm7"),
                    "tilestored [{sums} + {half}*2 + 64], tmm0",
                    a = in(reg) &a, b = in(reg) &b, sums = in(reg) &mut sums, half = in(reg) 32_usize,
                    out("tmm0") _, out("tmm5") _, out("tmm7") _,
                )
            }
            assert_eq!(sums[0], [0; 16]);
            sums[16][15]
        }};
    }
    let signed = i32::from(200_u8 as i8);
    assert_eq!([multiply!("tdpbssd"), multiply!("tdpbsud")], [64 * 3 * signed; 2]);
    assert_eq!([multiply!("tdpbusd"), multiply!("tdpbuud")], [64 * 3 * 200; 2]);
    // SAFETY: there is room for the configuration.
    unsafe { asm!("sttilecfg [{}]", in(reg) &mut config) };
    assert_eq!((config[0], config[16], config[48], config[56]), (1, 64, 16, 0));
}

/// Whatever a processor would refuse ends the process, so that no test can pass in spite of it.
#[test]
fn the_emulator_refuses_what_a_processor_would() {
    if Amx::detect().is_some() || Amx::emulated().is_none() {
        return;
    }
    let refused = |misuse: fn()| {
        // SAFETY: the child does not return, and does no more than an emulated instruction or two.
        let child = unsafe { libc::fork() };
        if child == 0 {
            misuse();
            // SAFETY: ends the child without the parent's exit handlers.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: a child of this process, and room for its status.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT
    };
    // SAFETY: no memory is touched, or the child ends before.
    assert!(!refused(|| unsafe { asm!("ldtilecfg [{}]", "tilezero tmm0", in(reg) &WHOLE_TILES) }));
    // SAFETY: tiles are not configured, which ends the child.
    assert!(refused(|| unsafe { asm!("tilerelease", "tilezero tmm0") }), "no configuration");
    // SAFETY: naming one tile as two operands ends the child. (tdpbf16ps tmm0, tmm1, tmm1; assemblers refuse to write
    // it.)
    let twice = || unsafe { asm!("ldtilecfg [{}]", ".byte 0xC4, 0xE2, 0x72, 0x5C, 0xC1", in(reg) &WHOLE_TILES) };
    assert!(refused(twice), "one operand for two");
    const SMALL: TileConfig = TileConfig { rows: [16, 8, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], ..WHOLE_TILES };
    // SAFETY: a configuration of tiles with bytes and no rows ends the child.
    assert!(refused(|| unsafe { asm!("ldtilecfg [{}]", in(reg) &SMALL) }), "bytes without rows");
    const UNLIKE: TileConfig =
        TileConfig { rows: [16, 8, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0], ..WHOLE_TILES };
    // SAFETY: shapes that differ end the child.
    assert!(refused(|| unsafe { asm!("ldtilecfg [{}]", "tdpbssd tmm0, tmm1, tmm2", in(reg) &UNLIKE) }), "shapes");
    // SAFETY: an illegal instruction ends the child.
    assert!(refused(|| unsafe { asm!("ud2") }), "no instruction of AMX");
}

/// A matrix of each format, of the same numbers as far as it has them.
struct Weights {
    float32: Vec<f32>,
    bf16: Vec<bf16>,
    bytes: Vec<i8>,
    sums: Vec<i32>,
    absmax: Vec<f32>,
    packed: Vec<u8>,
    code: [f32; 16],
}

impl Weights {
    fn new(n: usize, k: usize) -> Self {
        let float32 = numbers(n * k, 1);
        let bytes = bytes(n * k, 2);
        Self {
            bf16: rounded(&float32),
            float32,
            sums: bytes.chunks_exact(k).map(|row| row.iter().map(|&value| i32::from(value)).sum()).collect(),
            absmax: numbers((n * k).div_ceil(32).max(n), 3).iter().map(|x| x.abs() + 0.1).collect(),
            packed: bytes.iter().take((n * k).div_ceil(2)).map(|&byte| byte as u8).collect(),
            bytes,
            code: std::array::from_fn(|i| i as f32 / 7.5 - 1.0),
        }
    }

    fn packed_4_bit(&self, n: usize, k: usize, compute: Compute) -> Packed4Bit<'_> {
        let Self { packed, absmax, code, .. } = self;
        let absmax = &absmax[..(n * k).div_ceil(32)];
        Packed4Bit { packed, absmax, minimum: None, code, blocksize: 32, compute, columns: None }
    }

    fn int8(&self, n: usize) -> PackedInt8<'_> {
        let activations = ActivationQuant::Dynamic { threshold: 0.0 };
        let Self { bytes: values, absmax, sums, .. } = self;
        PackedInt8 { values, absmax: &absmax[..n], sums, activations }
    }

    /// The formats whose sums AMX rounds in another order than AVX-512.
    fn rounded_otherwise(&self, n: usize, k: usize) -> [Box<dyn matmul::Weights + '_>; 2] {
        [Box::new(&self.bf16[..]), Box::new(self.packed_4_bit(n, k, Compute::BFloat16))]
    }
}

fn product(isa: Isa, x: &[f32], weights: &dyn matmul::Weights, (n, k): (usize, usize)) -> Vec<f32> {
    let mut out = vec![f32::NAN; x.len() / k * n];
    matmul::matmul(&thread_scope().with_isa(isa), x, Matrix { weights, n, k }, Epilogue::default(), &mut out);
    out
}

#[test]
fn a_row_does_not_depend_on_the_others_of_a_product_by_tiles() {
    let Some(amx) = Amx::emulated() else { return };
    let (isa, m, n, k) = (Isa::Amx(amx), 515, 33, 65);
    let (weights, x) = (Weights::new(n, k), numbers(m * k, 5));
    for data in weights.rounded_otherwise(n, k) {
        // 512 rows are converted at once: the last 3 are a product by tiles nevertheless.
        let together = product(isa, &x, &*data, (n, k));
        for first in [0, 13, 250, m - MIN_ROWS.bf16] {
            let some = product(isa, &x[first * k..(first + MIN_ROWS.bf16) * k], &*data, (n, k));
            assert_eq!(some, together[first * n..(first + MIN_ROWS.bf16) * n], "rows from {first} on");
        }
    }
}

#[test]
fn bfloat16_and_bytes_have_thresholds_of_their_own() {
    let Some(amx) = Amx::emulated() else { return };
    let (tiles, vectors) = (Isa::Amx(amx.with(MinRows { bf16: 8, int8: 32 })), Isa::Avx512Bf16(amx.vectors()));
    assert_eq!([7, 8, 31, 32].map(|m| tiles.for_rows(m)), [vectors, tiles, tiles, tiles]);
    assert_eq!([7, 8, 31, 32].map(|m| tiles.for_bytes(m)), [vectors, vectors, vectors, tiles]);
    let bytes_only = Isa::Amx(amx.with(MinRows { bf16: NEVER, int8: 1 }));
    assert!(tiles.has_tiles_for_bf16() && !bytes_only.has_tiles_for_bf16() && !vectors.has_tiles_for_bf16());
}

#[test]
fn fewer_rows_and_other_formats_are_as_without_amx() {
    let Some(amx) = Amx::emulated() else { return };
    let (isa, without) = (Isa::Amx(amx), Isa::Avx512Bf16(amx.vectors()));
    let (n, k) = (70, 100);
    let weights = Weights::new(n, k);
    // Of 600 rows, 512 are multiplied at once.
    for m in [1, MIN_ROWS.bf16 - 1, MIN_ROWS.bf16, MIN_ROWS.int8 - 1, MIN_ROWS.int8, 600] {
        let x = numbers(m * k, 5);
        let compare = |data: &dyn matmul::Weights| (product(isa, &x, data, (n, k)), product(without, &x, data, (n, k)));
        let same: [&dyn matmul::Weights; 3] =
            [&&weights.float32[..], &weights.packed_4_bit(n, k, Compute::Float32), &weights.int8(n)];
        for data in same {
            let (with, without) = compare(data);
            assert_eq!(with, without, "{m} rows");
        }
        for data in weights.rounded_otherwise(n, k) {
            let (with, without) = compare(&*data);
            assert_eq!(with == without, m < MIN_ROWS.bf16, "{m} rows");
            let without: Vec<f64> = without.into_iter().map(f64::from).collect();
            assert_close(&with, &without, 1e-5);
        }
    }
}

/// Numbers at the very end of memory that may be read.
struct AtEnd {
    start: *mut u8,
    len: usize,
}

const PAGE: usize = 4096;

impl AtEnd {
    fn new<T: Copy>(numbers: &[T]) -> Self {
        let len = size_of_val(numbers).next_multiple_of(PAGE) + PAGE;
        // SAFETY: fresh memory, whose last page is then made inaccessible.
        let start = unsafe {
            let (all, anonymous) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let start = libc::mmap(std::ptr::null_mut(), len, all, anonymous, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(start.byte_add(len - PAGE), PAGE, libc::PROT_NONE), 0);
            start.cast::<u8>()
        };
        // SAFETY: there is room before the last page, and the copy ends where it begins.
        unsafe {
            let at = start.add(len - PAGE - size_of_val(numbers));
            numbers.as_ptr().cast::<u8>().copy_to_nonoverlapping(at, size_of_val(numbers));
        }
        Self { start, len }
    }

    fn get<T: Copy>(&self, count: usize) -> &[T] {
        // SAFETY: `new` has put at least so many there; pages are aligned, and so are numbers that end with one.
        unsafe { std::slice::from_raw_parts(self.start.add(self.len - PAGE - count * size_of::<T>()).cast(), count) }
    }
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        // SAFETY: what `new` has mapped.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

#[test]
fn nothing_is_read_beyond_the_weights_and_no_tile_stays_configured() {
    let Some(amx) = Amx::emulated() else { return };
    let isa = Isa::Amx(amx.with_min_rows(1));
    for (m, n, k) in [(1, 1, 1), (3, 32, 64), (17, 33, 100), (40, 50, 64), (2, 64, 31), (1, 65, 576), (70, 64, 90)] {
        let (weights, x) = (Weights::new(n, k), numbers(m * k, 5));
        // What is left over in the panel is NaN, and must not be multiplied, not even by 0.
        Scratch::<bf16>::uninit(BLOCK * product::PANEL_STEPS * 32).fill(bf16::NAN);
        let at_end = [AtEnd::new(&weights.bf16), AtEnd::new(&weights.bytes), AtEnd::new(&weights.packed)];
        let int8 = PackedInt8 { values: at_end[1].get(n * k), ..weights.int8(n) };
        let bf16: &[bf16] = at_end[0].get(n * k);
        let out = product(isa, &x, &bf16, (n, k));
        assert!(out.iter().all(|x| x.is_finite()), "({m}, {n}, {k})");
        assert_eq!(out, product(isa, &x, &&weights.bf16[..], (n, k)));
        assert_eq!(product(isa, &x, &int8, (n, k)), product(isa, &x, &weights.int8(n), (n, k)));
        let Weights { absmax, code, .. } = &weights;
        let absmax = &absmax[..(n * k).div_ceil(32)];
        let packed = at_end[2].get((n * k).div_ceil(2));
        let packed = Packed4Bit {
            packed,
            absmax,
            minimum: None,
            code,
            blocksize: 32,
            compute: Compute::BFloat16,
            columns: None,
        };
        let expected = product(isa, &x, &weights.packed_4_bit(n, k, Compute::BFloat16), (n, k));
        assert_eq!(product(isa, &x, &packed, (n, k)), expected);
        assert!(!emulator::is_configured());
    }
}
