//! Products of any sizes with weights of any lengths, in every format and with every instruction set.

use half::{bf16, f16};
use proptest::prelude::*;
use quantlab_kernels::*;

use super::{apply, assert_close, cases, change, integers, length, outcome, product};

/// What else a format is told or has besides its weights, by its index in [`Lengths`] and [`Sizes`].
#[derive(Debug, Clone, Copy, PartialEq)]
enum Format {
    Float32,
    BFloat16,
    FourBit(Compute),
    /// The same with a minimum for each block, and columns in another order.
    Affine(Compute),
    /// With inputs of 8 bits.
    Grouped(CodeBits),
    /// The same, with scales among the codes.
    Q8_0,
    Dynamic {
        threshold: f32,
    },
    Static,
}

const FORMATS: [Format; 13] = [
    Format::Float32,
    Format::BFloat16,
    Format::FourBit(Compute::Float32),
    Format::FourBit(Compute::BFloat16),
    Format::Affine(Compute::Float32),
    Format::Affine(Compute::BFloat16),
    Format::Grouped(CodeBits::Four),
    Format::Grouped(CodeBits::Six),
    Format::Grouped(CodeBits::Eight),
    Format::Q8_0,
    Format::Dynamic { threshold: 0.0 },
    Format::Dynamic { threshold: 6.0 },
    Format::Static,
];

/// Bytes of 32 weights: a scale in float16, and their codes.
const Q8_0_BLOCK: usize = 34;

/// n, k, blocksize
type Sizes = [usize; 3];

/// The lengths of inputs, outputs, bias, weights, scales, sums of rows and factors of columns.
type Lengths = [usize; 7];

/// The lengths that belong to `m` rows of inputs and these sizes.
fn lengths(format: Format, m: usize, [n, k, blocksize]: Sizes) -> Lengths {
    let (weights, scales) = match format {
        Format::FourBit(_) | Format::Affine(_) => ((n * k).div_ceil(2), (n * k).div_ceil(blocksize)),
        Format::Grouped(bits) => {
            let rows = n.next_multiple_of(PANEL);
            (rows * k * bits.count() / 8, rows * (k / blocksize))
        }
        Format::Q8_0 => (n * (k / 32) * Q8_0_BLOCK, n),
        _ => (n * k, n),
    };
    // What int8 has as sums of rows, affine numbers have as minima.
    let sums = if let Format::Affine(_) | Format::Grouped(_) = format { scales } else { n };
    [m * k, m * n, n, weights, scales, sums, k]
}

/// Products of bytes that fit into int32 when they are added up.
const MAX_BYTES: usize = i32::MAX as usize / (127 * 128);

fn is_valid(format: Format, [n, k, blocksize]: Sizes, lengths: Lengths, biased: bool) -> bool {
    let [x, out, bias, weights, scales, sums, factors] = lengths.map(|length| length as u128);
    let (n, numbers) = (n as u128, product(&[n, k]));
    let is_format = match format {
        Format::Float32 | Format::BFloat16 => weights == numbers,
        Format::FourBit(_) | Format::Affine(_) => {
            let is_block = blocksize > 0 && blocksize.is_multiple_of(32);
            let blocks = is_block.then(|| numbers.div_ceil(blocksize as u128));
            let is_affine = matches!(format, Format::Affine(_));
            let fits = !is_affine || (Some(sums) == blocks && factors == k as u128);
            weights == numbers.div_ceil(2) && Some(scales) == blocks && fits
        }
        Format::Grouped(bits) => {
            let is_group = blocksize > 0 && blocksize.is_multiple_of(32) && k.is_multiple_of(blocksize);
            let stored = product(&[n.div_ceil(PANEL as u128) as usize, PANEL, k]);
            let groups = is_group.then(|| stored / blocksize as u128);
            weights == stored / 8 * bits.count() as u128 && Some(scales) == groups && Some(sums) == groups
        }
        Format::Q8_0 => k.is_multiple_of(32) && weights == product(&[n as usize, k / 32, Q8_0_BLOCK]),
        Format::Dynamic { .. } => weights == numbers && scales == n && sums == n,
        Format::Static => weights == numbers && scales == n && sums == n && factors == k as u128,
    };
    let is_shape = k > 0 && x % k as u128 == 0 && (x / k as u128).checked_mul(n) == Some(out);
    let is_int8 = matches!(format, Format::Dynamic { .. } | Format::Static);
    let fits = !is_int8 || k <= MAX_BYTES;
    is_format && is_shape && fits && (!biased || bias == n)
}

/// Of blocks whose scales are 1 and 2 in turn.
fn q8_0_byte(i: usize, value: i32) -> u8 {
    let scale = f16::from_f32([1.0, 2.0][i / Q8_0_BLOCK % 2]).to_le_bytes();
    scale.get(i % Q8_0_BLOCK).copied().unwrap_or(value as i8 as u8)
}

/// Numbers that every format has as they are: integers up to 7 in size, and inputs that are 1 in size, or 8 where a
/// threshold keeps them out of the rounding.
struct Numbers {
    format: Format,
    x: Vec<f32>,
    bias: Vec<f32>,
    weights: Vec<i32>,
    float32: Vec<f32>,
    bf16: Vec<bf16>,
    packed: Vec<u8>,
    int8: Vec<i8>,
    q8_0: Vec<u8>,
    sums: Vec<i32>,
    scales: Vec<f32>,
    minima: Vec<f32>,
    columns: Vec<u32>,
    factors: Vec<f32>,
    code: [f32; 16],
}

impl Numbers {
    fn new(format: Format, [n, k, _]: Sizes, lengths: Lengths, seed: u32) -> Self {
        let [x, _, bias, weights, scales, sums, factors] = lengths;
        let outlier = if format == (Format::Dynamic { threshold: 6.0 }) { 8 } else { 1 };
        let x = integers(x, 1, seed).into_iter().enumerate();
        let x = x.map(|(i, x)| (if i % 11 == 3 { x * outlier } else { x }) as f32).collect();
        let is_four_bit = matches!(format, Format::FourBit(_) | Format::Affine(_) | Format::Grouped(_));
        let count = if is_four_bit { 2 * weights } else { weights };
        let values = integers(count, 7, seed ^ 1);
        let mut of_rows: Vec<i32> =
            if k == 0 { vec![] } else { values.chunks(k).map(|row| row.iter().sum()).collect() };
        of_rows.truncate(n);
        of_rows.resize(sums, 0);
        let index = |value: i32| (value + 8) as u8;
        let scale = |i: usize| if is_four_bit { [1.0, 2.0][i % 2] } else { LARGEST };
        Self {
            format,
            x,
            bias: integers(bias, 7, seed ^ 2).into_iter().map(|value| value as f32).collect(),
            float32: values.iter().map(|&value| value as f32).collect(),
            bf16: values.iter().map(|&value| bf16::from_f32(value as f32)).collect(),
            packed: values.chunks(2).map(|pair| index(pair[0]) << 4 | index(*pair.last().unwrap())).collect(),
            int8: values.iter().map(|&value| value as i8).collect(),
            q8_0: values.iter().enumerate().map(|(i, &value)| q8_0_byte(i, value)).collect(),
            weights: values,
            sums: of_rows,
            scales: (0..scales).map(scale).collect(),
            minima: (0..sums).map(|i| [-1.0, 0.0, 3.0][i % 3]).collect(),
            // From the last to the first.
            columns: (0..factors as u32).rev().collect(),
            factors: vec![LARGEST; factors],
            code: std::array::from_fn(|i| i as f32 - 8.0),
        }
    }

    fn stored(&self, blocksize: usize) -> Box<dyn Weights + '_> {
        let Self { packed, int8: values, sums, scales: absmax, factors, code, .. } = self;
        let int8 = |activations| Box::new(PackedInt8 { values, absmax, sums, activations });
        match self.format {
            Format::Float32 => Box::new(&self.float32[..]),
            Format::BFloat16 => Box::new(&self.bf16[..]),
            Format::FourBit(compute) => {
                Box::new(Packed4Bit { packed, absmax, minimum: None, code, blocksize, compute, columns: None })
            }
            Format::Affine(compute) => Box::new(Packed4Bit {
                packed,
                absmax,
                minimum: Some(&self.minima),
                code,
                blocksize,
                columns: Some(&self.columns),
                compute,
            }),
            Format::Grouped(bits) => Box::new(GroupedInt {
                codes: packed,
                bits,
                offset: 0,
                scales: Scales::Float32(absmax),
                minima: Some(Scales::Float32(&self.minima)),
                group: blocksize,
            }),
            Format::Q8_0 => Box::new(Q8_0Rows { bytes: &self.q8_0, order: None }),
            Format::Dynamic { threshold } => int8(ActivationQuant::Dynamic { threshold }),
            Format::Static => int8(ActivationQuant::Static { factors, scale: 1.0 / LARGEST }),
        }
    }

    /// The outputs, and how large what was added up is.
    fn naive(&self, [n, k, blocksize]: Sizes, epilogue: Epilogue<'_>, before: f32) -> Vec<(f64, f64)> {
        let number = |i: usize| match self.format {
            Format::FourBit(_) => f64::from(self.weights[i] as f32 * self.scales[i / blocksize]),
            Format::Affine(_) => {
                f64::from(self.weights[i] as f32 * self.scales[i / blocksize] + self.minima[i / blocksize])
            }
            Format::Grouped(bits) => {
                let (row, column) = (i / k, i % k);
                let of_panel = row % PANEL;
                let code = code_in_panels(bits, &self.packed, row, column, k);
                let group = (row / PANEL * (k / blocksize) + column / blocksize) * PANEL + of_panel;
                f64::from(code * self.scales[group] + self.minima[group])
            }
            Format::Q8_0 => {
                let block = &self.q8_0[i / 32 * Q8_0_BLOCK..][..Q8_0_BLOCK];
                f64::from(block[2 + i % 32] as i8) * f16::from_le_bytes([block[0], block[1]]).to_f64()
            }
            _ => f64::from(self.weights[i]),
        };
        let column = |i: usize| if let Format::Affine(_) = self.format { k - 1 - i } else { i };
        let output = |(x, row): (&[f32], usize)| {
            let before = if epilogue.accumulate { f64::from(before) } else { 0.0 };
            let bias = epilogue.bias.map_or(0.0, |bias| f64::from(bias[row]));
            let products = (0..k).map(|i| f64::from(x[column(i)]) * number(row * k + i)).chain([before, bias]);
            let y = products.clone().sum::<f64>();
            (if epilogue.activation.is_some() { y.max(0.0) } else { y }, products.map(f64::abs).sum())
        };
        self.x.chunks_exact(k).flat_map(|x| (0..n).map(move |row| (x, row))).map(output).collect()
    }
}

/// The code of a weight, where panels have it.
fn code_in_panels(bits: CodeBits, codes: &[u8], row: usize, column: usize, k: usize) -> f32 {
    let of_block = bits.panel_bytes(32);
    let block = &codes[(row / PANEL * (k / 32) + column / 32) * of_block..][..of_block];
    let cell = |number: usize| block[4 * PANEL * number + 4 * (row % PANEL) + column % 4];
    let (half, part) = (column % 32 / 16, column % 16 / 4);
    let low = cell(part) >> (4 * half) & 15;
    match bits {
        CodeBits::Four => f32::from(low),
        CodeBits::Six => f32::from(low | (cell(4 + half) >> (2 * part) & 3) << 4),
        CodeBits::Eight => f32::from((cell(4 * half + part) ^ 0x80) as i8),
    }
}

/// Computes it with every instruction set, and compares with the loop, or is refused by every one.
fn check(format: Format, sizes: Sizes, lengths: Lengths, biased: bool, seed: u32) {
    let numbers = Numbers::new(format, sizes, lengths, seed);
    let valid = is_valid(format, sizes, lengths, biased);
    let bias = biased.then_some(&numbers.bias[..]);
    let epilogue =
        Epilogue { bias, accumulate: seed % 2 == 1, activation: (seed % 3 == 1).then_some(Activation::Relu) };
    let reasons = [
        "inputs: ",
        "outputs: ",
        "bias: ",
        "weights: ",
        "scales: ",
        "sums: ",
        "factors: ",
        "minima: ",
        "columns: ",
        "blocks cannot have ",
        "groups cannot have ",
        "rows of ",
        "sums of ",
    ];
    for isa in Isa::available() {
        let mut out = vec![3.0; lengths[1]];
        let [n, k, blocksize] = sizes;
        let matrix = Matrix { weights: &*numbers.stored(blocksize), n, k };
        let product = || matmul(&thread_scope().with_isa(isa), &numbers.x, matrix, epilogue, &mut out);
        if outcome(valid, &reasons, product).is_some() {
            let expected = numbers.naive(sizes, epilogue, 3.0);
            assert_eq!(out.len(), expected.len());
            for (found, (expected, size)) in out.into_iter().zip(expected) {
                // What int8 multiplies by is 2 parts in 100,000 more than it should be (`PER_PRODUCT`).
                let near = (f64::from(found) - expected).abs() <= 3e-5 * size;
                assert!(near, "{isa}: {found} instead of {expected}, of {size}");
            }
        }
    }
}

/// Widths of whole blocks and groups, and others.
fn width() -> impl Strategy<Value = usize> {
    prop_oneof![0..70_usize, (0..9_u32).prop_map(|bit| 1 << bit)]
}

proptest! {
    #![proptest_config(cases(1024))]

    #[test]
    fn products_compute_or_refuse(
        (m, n, k, log_block) in (0..12_usize, 0..40_usize, width(), 5..9_u32),
        of_sizes in change(3),
        of_lengths in change(7),
        format in prop::sample::select(&FORMATS[..]),
        biased: bool,
        seed: u32,
    ) {
        let mut sizes = [n, k, 1 << log_block];
        let mut lengths = lengths(format, m, sizes);
        apply(&mut sizes, of_sizes);
        apply(&mut lengths, of_lengths);
        check(format, sizes, lengths.map(length), biased, seed);
    }
}

/// Sizes whose product wraps to that of the slices.
#[test]
fn products_of_sizes_that_wrap_are_refused() {
    for format in FORMATS {
        for (m, [n, k, blocksize]) in [(0, [1 << 63, 2, 64]), (2, [1 << 63, 2, 64]), (4, [(1 << 62) + 1, 4, 64])] {
            let small = lengths(format, m, [n & 1, k, blocksize]);
            check(format, [n, k, blocksize], small, false, 1);
        }
    }
}

#[test]
fn a_product_of_nothing_computes_nothing_in_every_format() {
    for format in FORMATS {
        for (m, sizes) in [(0, [3, 5, 64]), (2, [0, 8, 32]), (0, [0, 1, 32])] {
            check(format, sizes, lengths(format, m, sizes), true, 1);
        }
        // Rows of no numbers: nobody knows how many.
        for (m, sizes) in [(2, [3, 0, 64]), (0, [0, 0, 64])] {
            check(format, sizes, lengths(format, m, sizes), false, 1);
        }
        // No rows, of more numbers than there can be of several.
        for k in [usize::MAX, usize::MAX / 511] {
            let sizes = [0, k, 64];
            check(format, sizes, lengths(format, 0, sizes).map(length), false, 1);
        }
    }
}

#[test]
fn sums_of_bytes_that_do_not_fit_are_refused() {
    for (k, fits) in [(MAX_BYTES, true), (MAX_BYTES + 1, false)] {
        let (values, x) = (vec![-128; k], vec![1.0; k]);
        let activations = ActivationQuant::Dynamic { threshold: 0.0 };
        let int8 = PackedInt8 { values: &values, absmax: &[LARGEST], sums: &[-128 * k as i32], activations };
        let matrix = Matrix { weights: &int8, n: 1, k };
        let mut out = [0.0];
        let product = || matmul(&thread_scope(), &x, matrix, Epilogue::default(), &mut out);
        if outcome(fits, &["sums of "], product).is_some() {
            assert_close(&out, &[-128.0 * k as f64], 1e-4);
        }
    }
}

#[test]
fn columns_that_there_are_not_are_refused() {
    let (packed, absmax, code) = ([0x21; 16], [1.0], [1.0; 16]);
    for (columns, valid) in [([0, 31], true), ([7, 32], false), ([u32::MAX, 0], false)] {
        let columns: Vec<u32> = columns.into_iter().chain([0; 30]).collect();
        let compute = Compute::Float32;
        let weights = Packed4Bit {
            packed: &packed,
            absmax: &absmax,
            minimum: None,
            code: &code,
            blocksize: 32,
            columns: Some(&columns),
            compute,
        };
        let mut out = [0.0];
        let matrix = Matrix { weights: &weights, n: 1, k: 32 };
        outcome(valid, &["columns: "], || matmul(&thread_scope(), &[1.0; 32], matrix, Epilogue::default(), &mut out));
    }
}

#[test]
fn rows_that_do_not_exist_are_refused() {
    let bytes = vec![0; 3 * Q8_0_BLOCK];
    let orders: [(&[u32], bool); 5] =
        [(&[2, 0, 1], true), (&[0, 0, 0], true), (&[0, 1, 3], false), (&[0, 1], false), (&[u32::MAX; 3], false)];
    for (order, valid) in orders {
        let weights = Q8_0Rows { bytes: &bytes, order: Some(order) };
        let matrix = Matrix { weights: &weights, n: 3, k: 32 };
        let mut out = [0.0; 3];
        outcome(valid, &["order: "], || matmul(&thread_scope(), &[1.0; 32], matrix, Epilogue::default(), &mut out));
    }
}

#[test]
fn offsets_that_codes_cannot_have_are_refused() {
    let allowed = [(CodeBits::Four, 15, true), (CodeBits::Six, 63, true), (CodeBits::Eight, 0, true)];
    let others = [(CodeBits::Four, 16, false), (CodeBits::Six, 64, false), (CodeBits::Eight, 1, false)];
    for (bits, offset, valid) in allowed.into_iter().chain(others) {
        let codes = vec![0; bits.panel_bytes(32)];
        let scales = Scales::Float32(&[1.0; PANEL]);
        let weights = GroupedInt { codes: &codes, bits, offset, scales, minima: None, group: 32 };
        let mut out = [0.0; PANEL];
        let matrix = Matrix { weights: &weights, n: PANEL, k: 32 };
        let reasons = ["the offset ", "codes that have a sign "];
        outcome(valid, &reasons, || matmul(&thread_scope(), &[1.0; 32], matrix, Epilogue::default(), &mut out));
    }
}
