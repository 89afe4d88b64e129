use std::collections::BTreeMap;

use proptest::prelude::*;
use safetensors::Dtype;
use serde_json::json;

use super::super::{Checkpoint, Part, Parts};
use super::*;

/// The tensors of one layer.
#[derive(Default)]
struct Tensors(BTreeMap<&'static str, (Dtype, Vec<usize>, Vec<u8>)>);

impl Parts for Tensors {
    fn find(&self, part: &str) -> Result<Option<Part>> {
        Ok(self.0.get(part).map(|(dtype, shape, bytes)| Part {
            name: part.to_owned(),
            dtype: *dtype,
            shape: shape.clone(),
            bytes: Buffer::Owned(bytes.clone()),
        }))
    }
}

impl Tensors {
    fn words(&mut self, part: &'static str, shape: [usize; 2], words: &[u32]) {
        self.0.insert(part, (Dtype::I32, shape.to_vec(), words.iter().flat_map(|word| word.to_le_bytes()).collect()));
    }

    fn floats(&mut self, part: &'static str, shape: [usize; 2], numbers: &[f32]) {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.0.insert(part, (Dtype::F32, shape.to_vec(), bytes));
    }
}

/// A matrix of numbers below 2^bits as words, bit by bit: down the columns, or along the rows.
fn stream(numbers: &[u8], columns: usize, bits: usize, down: bool) -> Vec<u32> {
    let rows = numbers.len() / columns;
    let (lines, length) = if down { (columns, rows) } else { (rows, columns) };
    let of_line = (length * bits).div_ceil(32);
    let mut words = vec![0_u32; lines * of_line];
    for (line, place, bit) in
        (0..lines).flat_map(|line| (0..length).flat_map(move |place| (0..bits).map(move |bit| (line, place, bit))))
    {
        let number = if down { numbers[place * columns + line] } else { numbers[line * columns + place] };
        let at = place * bits + bit;
        let word = if down { at / 32 * columns + line } else { line * of_line + at / 32 };
        words[word] |= u32::from(number >> bit & 1) << (at % 32);
    }
    words
}

/// AWQ's words: from the lowest four bits on, these of eight columns.
fn interleaved(numbers: &[u8]) -> Vec<u32> {
    let order = [0, 2, 4, 6, 1, 3, 5, 7];
    let word = |eight: &[u8]| (0..8).map(|place| u32::from(eight[order[place]]) << (4 * place)).sum();
    numbers.chunks_exact(8).map(word).collect()
}

fn transpose(numbers: &[u8], columns: usize) -> Vec<u8> {
    super::super::parts::transposed(numbers, columns)
}

/// A layer (32, 64) in groups of 32: codes, zero points and scales, (n, k) and (n, groups).
#[derive(Debug, Clone)]
struct Layer {
    bits: usize,
    codes: Vec<u8>,
    zeros: Vec<u8>,
    scales: Vec<f32>,
    groups: Vec<u32>,
}

const N: usize = 32;
const K: usize = 64;

fn any_layer() -> impl Strategy<Value = Layer> {
    let bits = prop::sample::select(vec![2_usize, 3, 4, 8]);
    let groups = (0..K as u32).map(|column| column / 32).collect::<Vec<_>>();
    (bits, prop_oneof![Just(groups.clone()), Just(groups).prop_shuffle()]).prop_flat_map(|(bits, groups)| {
        let most = ((1_u32 << bits) - 1) as u8;
        let codes = prop::collection::vec(0..=most, N * K);
        // Version 1 of GPTQ stores none that is 0.
        let zeros = prop::collection::vec(0..=most, N * 2);
        (codes, zeros, prop::collection::vec(-2.0..2.0_f32, N * 2)).prop_map(move |(codes, zeros, scales)| Layer {
            bits,
            codes,
            zeros,
            scales,
            groups: groups.clone(),
        })
    })
}

impl Layer {
    fn weights(&self) -> Vec<f32> {
        let group = |index: usize| index / K * 2 + self.groups[index % K] as usize;
        let weight = |(index, &code): (usize, &u8)| {
            (f32::from(code) - f32::from(self.zeros[group(index)])) * self.scales[group(index)]
        };
        self.codes.iter().enumerate().map(weight).collect()
    }

    fn gptq(&self, version: u8) -> (serde_json::Value, Tensors) {
        let bits = self.bits;
        let mut tensors = Tensors::default();
        tensors.words("qweight", [K * bits / 32, N], &stream(&transpose(&self.codes, K), N, bits, true));
        let less = |zero: &u8| if version == 1 && bits == 3 { zero.wrapping_sub(1) & 7 } else { *zero };
        let mut stored = stream(&transpose(&self.zeros.iter().map(less).collect::<Vec<_>>(), 2), N, bits, false);
        if version == 1 && bits != 3 {
            let ones = (0..32).step_by(bits).map(|bit| 1_u32 << bit).sum::<u32>();
            stored.iter_mut().for_each(|word| *word = word.wrapping_sub(ones));
        }
        tensors.words("qzeros", [2, N * bits / 32], &stored);
        tensors.floats("scales", [2, N], &super::super::parts::transposed(&self.scales, 2));
        let groups = self.groups.iter().flat_map(|group| group.to_le_bytes()).collect();
        tensors.0.insert("g_idx", (Dtype::I32, vec![K], groups));
        let format = if version == 1 { "gptq" } else { "gptq_v2" };
        (json!({ "quant_method": "gptq", "bits": bits, "group_size": 32, "checkpoint_format": format }), tensors)
    }

    fn awq(&self) -> (serde_json::Value, Tensors) {
        let mut tensors = Tensors::default();
        tensors.words("qweight", [K, N / 8], &interleaved(&transpose(&self.codes, K)));
        tensors.words("qzeros", [2, N / 8], &interleaved(&transpose(&self.zeros, 2)));
        tensors.floats("scales", [2, N], &super::super::parts::transposed(&self.scales, 2));
        (json!({ "quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm" }), tensors)
    }

    fn packed(&self) -> (serde_json::Value, Tensors) {
        let bits = self.bits;
        let mut tensors = Tensors::default();
        tensors.words("weight_packed", [N, K * bits / 32], &stream(&self.codes, K, bits, false));
        tensors.words("weight_zero_point", [N * bits / 32, 2], &stream(&self.zeros, 2, bits, true));
        tensors.floats("weight_scale", [N, 2], &self.scales);
        let shape = [N, K].iter().flat_map(|&size| (size as i64).to_le_bytes()).collect();
        tensors.0.insert("weight_shape", (Dtype::I64, vec![2], shape));
        let groups = self.groups.iter().flat_map(|group| group.to_le_bytes()).collect();
        tensors.0.insert("weight_g_idx", (Dtype::I32, vec![K], groups));
        let weights = json!({ "num_bits": bits, "symmetric": false, "strategy": "group", "group_size": 32 });
        let groups = json!({ "a": { "targets": ["Linear"], "weights": weights } });
        (json!({ "quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups }), tensors)
    }
}

fn read(config: &serde_json::Value, tensors: &Tensors) -> Result<PackedLayer> {
    let checkpoint = Checkpoint::read(config)?.ok_or_else(|| Error::input("a checkpoint of bitsandbytes"))?;
    checkpoint.layer("layer", [N, K], tensors)
}

fn restored(layer: &PackedLayer) -> Vec<f32> {
    let (mut rows, mut weights) = (layer.rows(), vec![0.0; N * K]);
    for (row, weights) in weights.chunks_exact_mut(K).enumerate() {
        rows.restore(row, weights);
    }
    weights
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_packed_is_unpacked(layer in any_layer()) {
        let mut all = vec![layer.gptq(1), layer.gptq(2)];
        let in_order = layer.groups.is_sorted();
        if layer.bits == 4 && in_order {
            all.push(layer.awq());
        }
        if layer.bits != 3 {
            all.push(layer.packed());
        }
        for (config, tensors) in all {
            let read = read(&config, &tensors).unwrap();
            prop_assert_eq!(&restored(&read), &layer.weights(), "{}", config);
            prop_assert_eq!(read.order().is_none(), in_order);
            prop_assert_eq!(read.is_int4(32), layer.bits == 4);
            prop_assert!(!read.is_int4(16) && !read.is_int4(64) && !read.is_int4(0));
        }
    }

    /// What kernels multiply, column by column of the order, is what is restored.
    #[test]
    fn int4_is_what_is_restored(layer in any_layer().prop_filter("4 bits", |layer| layer.bits == 4)) {
        let (config, tensors) = layer.gptq(1);
        let read = read(&config, &tensors).unwrap();
        let order = read.order();
        let (mut rows, mut packed) = (read.rows(), vec![0; N * K / 2]);
        for (row, packed) in packed.chunks_exact_mut(K / 2).enumerate() {
            rows.pack(row, order.as_deref(), packed);
        }
        let int4 = crate::quant::AffineInt4::with_packed(Buffer::Owned(packed), &read.scales(32), K, 32).unwrap();
        let (found, weights) = (int4.dequantize(), layer.weights());
        for (index, number) in found.iter().enumerate() {
            let column = order.as_ref().map_or(index % K, |order| order[index % K] as usize);
            // A scale of 24 bits times a code rounds, and so does the difference.
            let scale = read.scales(32)[index / 32][0].abs();
            prop_assert!((number - weights[index / K * K + column]).abs() <= 16.0 * f32::EPSILON * scale);
        }
    }
}

/// One scale for 128 x 128 weights, as transformers takes it, or one for all.
#[test]
fn blocks_of_fp8_that_are_not_said_are_told_by_the_scales() {
    let checkpoint = Checkpoint::read(&json!({ "quant_method": "fp8" })).unwrap().unwrap();
    for scales in [&[2.0, 3.0][..], &[5.0]] {
        let mut tensors = Tensors::default();
        tensors.0.insert("weight", (Dtype::F8_E4M3, vec![130, 2], vec![0x38; 260]));
        tensors.floats("weight_scale_inv", [scales.len(), 1], scales);
        let layer = checkpoint.layer("layer", [130, 2], &tensors).unwrap();
        let mut restored = [0.0; 4];
        restored.chunks_exact_mut(2).zip([0, 129]).for_each(|(weights, row)| layer.rows().restore(row, weights));
        assert_eq!([restored[1], restored[2]], [scales[0], scales[scales.len() - 1]]);
    }
}

#[test]
fn blocks_of_compressed_tensors_are_two_numbers_or_their_text() {
    let read = |structure: serde_json::Value| {
        let weights = json!({ "num_bits": 8, "type": "float", "strategy": "block", "block_structure": structure });
        let groups = json!({ "a": { "targets": ["Linear"], "weights": weights } });
        let config =
            json!({ "quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": groups });
        Checkpoint::read(&config).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!((read(json!([128, 64])), read(json!("128x64"))), (Ok(()), Ok(())));
    for wrong in [json!(null), json!("128"), json!("128x0"), json!([128]), json!("ax2"), json!(128)] {
        let error = read(wrong.clone()).unwrap_err();
        assert!(error.contains(&format!("`block_structure` is {wrong}")), "{error}");
    }
}

/// Rows longer than their groups are many take the scale of their row again and again.
#[test]
fn groups_are_split_into_smaller_ones() {
    let codes = Codes::Rows { bytes: Buffer::Owned(vec![0x21; 2 * 48]), bits: 4, row_bytes: 48 };
    let layer = PackedLayer::new([2, 96], (codes, Values::Whole(4)), [1, 96], vec![0.5, 2.0], vec![8.0, 1.0]).unwrap();
    assert!(layer.is_int4(32) && layer.is_int4(96) && !layer.is_int4(64));
    let (first, second) = ([0.5, -4.0], [2.0, -2.0]);
    assert_eq!(layer.scales(32), [first, first, first, second, second, second]);
}
