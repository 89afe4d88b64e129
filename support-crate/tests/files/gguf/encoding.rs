//! Numbers to blocks: bytes of llama.cpp's own, and what holds for any numbers.

use candle_core::{DType, Device as CandleDevice, Tensor};
use proptest::prelude::*;
use quantlab::error::ErrorKind;
use quantlab::quant::{encode_ggml, restore_ggml};
use quantlab::source::GgmlType;

use crate::common::golden;

const WRITTEN: [GgmlType; 8] = [
    GgmlType::Q4_0,
    GgmlType::Q4_1,
    GgmlType::Q5_0,
    GgmlType::Q5_1,
    GgmlType::Q8_0,
    GgmlType::Q4K,
    GgmlType::Q5K,
    GgmlType::Q6K,
];

fn encoded(kind: GgmlType, row: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let mut bytes = vec![0xaa; row.len() / kind.block_len() * kind.block_bytes()];
    encode_ggml(kind, row, importance, &mut bytes).unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
    bytes
}

#[test]
fn blocks_are_those_of_llama_cpp_to_the_bit() {
    let file = golden().join("ggml_encoded.safetensors");
    let tensors = candle_core::safetensors::load(file, &CandleDevice::Cpu).unwrap();
    let floats = |tensor: &Tensor| tensor.to_dtype(DType::F32).unwrap();
    let rows: Vec<Vec<f32>> = floats(&tensors["rows"]).to_vec2().unwrap();
    let importance: Vec<f32> = floats(&tensors["importance"]).to_vec1().unwrap();
    for kind in WRITTEN {
        for (name, importance) in [("plain", None), ("weighted", Some(&importance[..]))] {
            let expected: Vec<Vec<u8>> = tensors[&format!("{}/{name}", kind.name())].to_vec2().unwrap();
            for (number, (row, expected)) in rows.iter().zip(&expected).enumerate() {
                let bytes = encoded(kind, row, importance);
                let differ = bytes.iter().zip(expected).filter(|(own, other)| own != other).count();
                assert!(differ == 0, "row {number} in {} ({name}): {differ} bytes differ", kind.name());
            }
        }
    }
}

/// How far a number may be from what its block stands for, as a part of the range of its block and zero, and how many
/// times the scale in float16 is added up in the largest number. With scales that are integers, a group's own is rounded
/// too.
fn most_off(kind: GgmlType) -> (f32, f32) {
    match kind {
        GgmlType::Q4_0 => (1.01 / 15.0, 8.0),
        GgmlType::Q4_1 => (0.51 / 15.0, 16.0),
        GgmlType::Q5_0 => (1.01 / 31.0, 16.0),
        GgmlType::Q5_1 => (0.51 / 31.0, 32.0),
        GgmlType::Q8_0 => (0.51 / 127.0, 127.0),
        GgmlType::Q4K => (2.0 / 15.0, 63.0 * 16.0),
        GgmlType::Q5K => (2.0 / 31.0, 63.0 * 32.0),
        _ => (2.0 / 63.0, 128.0 * 32.0),
    }
}

/// Rows of which most are small, and a few are anything: zeros, the smallest numbers, large ones, outliers.
fn row() -> impl Strategy<Value = Vec<f32>> {
    let number = prop_oneof![
        8 => (-1.0..1.0_f32).boxed(),
        1 => Just(0.0_f32).boxed(),
        1 => Just(-0.0_f32).boxed(),
        1 => (0..1_u32 << 23).prop_map(f32::from_bits).boxed(),
        1 => (-1e4..1e4_f32).boxed(),
    ];
    (prop::collection::vec(number, 256..=256), -12..1_i32, any::<bool>()).prop_map(|(mut row, tenfold, same)| {
        row.iter_mut().for_each(|number| *number *= 10.0_f32.powi(tenfold));
        if same {
            let first = row[0];
            row.fill(first);
        }
        row
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_a_block_stands_for_is_near(row in row()) {
        for kind in WRITTEN {
            let bytes = encoded(kind, &row, None);
            let mut restored = vec![f32::NAN; row.len()];
            restore_ggml(kind, &bytes, &mut restored);
            for (numbers, restored) in row.chunks(kind.block_len()).zip(restored.chunks(kind.block_len())) {
                let (least, largest) = numbers.iter().fold((0.0_f32, 0.0_f32), |(least, largest), &number| {
                    (least.min(number), largest.max(number))
                });
                let (part, times) = most_off(kind);
                // float16 has 11 bits, and none below 2^-24: a scale is off by half of the last one.
                let of_scale = times * 2.0_f32.powi(-25) + 2e-3 * largest.max(-least);
                let near = part * (largest - least) + of_scale;
                for (number, restored) in numbers.iter().zip(restored) {
                    prop_assert!((number - restored).abs() <= near, "{}: {number:e} became {restored:e} in {least:e}..{largest:e}", kind.name());
                }
            }
        }
    }

    #[test]
    fn any_bits_are_encoded_or_refused(bits in prop::collection::vec(any::<u32>(), 256..=256), weights in prop::collection::vec(0.0..f32::MAX, 256..=256), finite in any::<bool>()) {
        let clear = |bits: u32| if finite { bits & !(1 << 30) } else { bits };
        let row: Vec<f32> = bits.into_iter().map(|bits| f32::from_bits(clear(bits))).collect();
        for kind in GgmlType::ALL {
            for importance in [None, Some(&weights[..])] {
                let mut bytes = vec![0; row.len() / kind.block_len() * kind.block_bytes()];
                if encode_ggml(*kind, &row, importance, &mut bytes).is_ok() {
                    let mut restored = vec![f32::NAN; row.len()];
                    restore_ggml(*kind, &bytes, &mut restored);
                    prop_assert!(restored.iter().all(|number| number.is_finite()), "{}", kind.name());
                }
            }
        }
    }
}

#[test]
fn what_has_no_form_is_refused() {
    let mut bytes = vec![0; 1024];
    for kind in [GgmlType::F32, GgmlType::F16].into_iter().chain(WRITTEN) {
        let size = 256 / kind.block_len() * kind.block_bytes();
        for (number, said) in [(f32::NAN, "input 70 is NaN"), (f32::NEG_INFINITY, "input 70 is -inf")] {
            let mut row = vec![0.5; 256];
            row[70] = number;
            let error = encode_ggml(kind, &row, None, &mut bytes[..size]).unwrap_err();
            assert!(error.kind() == ErrorKind::Format && error.to_string().contains(said), "{}: {error}", kind.name());
        }
        let mut row = vec![0.5; 256];
        row[70] = 1e9;
        let result = encode_ggml(kind, &row, None, &mut bytes[..size]);
        assert_eq!(result.is_ok(), kind == GgmlType::F32, "{}", kind.name());
    }
    let error = encode_ggml(GgmlType::Q2K, &[0.0; 256], None, &mut bytes[..84]).unwrap_err();
    assert!(error.to_string().contains("Q2_K is only read"), "{error}");
}
