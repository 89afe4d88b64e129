//! The formats of 4 and 8 bits are those of bitsandbytes, bit for bit.
//!
//! Reference data lie in `tests/golden`, or in the folder that `QUANTLAB_GOLDEN` names; the cases are those
//! that the files hold.

use std::path::{Path, PathBuf};

use half::{bf16, f16};
use quantlab::model::Precision;
use quantlab::quant::{
    Absmax, Float, FourBit, FourBitOptions, Int8Rows, Int8Tokens, NESTED_BLOCKSIZE, NestedAbsmax, Quantized4Bit,
    int8_matmul_reference, llm_int8_linear_reference,
};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

/// `llm_int8_threshold` of the reference data.
const THRESHOLD: f32 = 6.0;

/// How far apart numbers may lie that were computed in another order, in steps of their format.
const STEPS: u32 = 2;

#[test]
fn four_bit_weights_are_those_of_bitsandbytes() {
    let bytes = read("bnb_4bit.safetensors");
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let cases: Vec<&str> = names(&file).filter_map(|name| name.strip_suffix("/packed")).collect();
    assert!(!cases.is_empty());
    for case in cases {
        let mut parts = case.split('/');
        let input = file.tensor(&format!("{}/input", parts.next().unwrap())).unwrap();
        let options = FourBitOptions {
            quant_type: parts.next().unwrap().parse().unwrap(),
            blocksize: parts.next().unwrap().strip_prefix('b').unwrap().parse().unwrap(),
            double_quant: parts.next() == Some("nested"),
        };
        match input.dtype() {
            Dtype::F32 => four_bit_case::<f32>(&file, case, &input, options),
            Dtype::F16 => four_bit_case::<f16>(&file, case, &input, options),
            Dtype::BF16 => four_bit_case::<bf16>(&file, case, &input, options),
            other => panic!("{case}: weights in {other:?}"),
        }
    }
}

fn four_bit_case<T: Stored>(file: &SafeTensors<'_>, case: &str, input: &TensorView<'_>, options: FourBitOptions) {
    let tensor = |name: &str| file.tensor(&format!("{case}/{name}")).unwrap();
    let quantized = Quantized4Bit::quantize(&values::<T>(input), input.shape(), options).unwrap();
    assert!(quantized.packed() == tensor("packed").data(), "{case}: packed");

    let loaded_absmax = match quantized.absmax() {
        Absmax::Float32(absmax) => {
            assert_same_bits(case, absmax, &values(&tensor("absmax")));
            Absmax::Float32(values(&tensor("absmax")))
        }
        Absmax::Nested(nested) => {
            assert!(nested.quantized() == tensor("absmax").data(), "{case}: nested codes");
            let [absmax, code, offset] =
                ["absmax", "code", "offset"].map(|part| values(&tensor(&format!("nested_{part}"))));
            assert_same_bits(case, nested.absmax(), &absmax);
            assert_same_bits(case, nested.code(), &code);
            assert_same_bits(case, &[nested.offset()], &offset);
            Absmax::Nested(NestedAbsmax::new(tensor("absmax").data().to_vec(), absmax, &code, offset[0]).unwrap())
        }
    };
    let loaded = Quantized4Bit::new(
        options.quant_type,
        options.blocksize,
        input.shape(),
        T::PRECISION,
        tensor("packed").data().to_vec(),
        loaded_absmax,
    );
    assert_eq!(loaded.unwrap(), quantized, "{case}");
    let dequantized = quantized.dequantize::<T>();
    assert_eq!(
        by_definition::<T>(&quantized),
        dequantized.iter().map(|weight| weight.to_f32()).collect::<Vec<_>>(),
        "{case}"
    );
    if !has_wrong_scales(input.shape(), options.blocksize) {
        assert_near(case, &dequantized, &values::<T>(&tensor("dequantized")));
    }
}

/// The weights as the format defines them, one by one, in float32.
fn by_definition<T: Float>(quantized: &Quantized4Bit) -> Vec<f32> {
    let absmax = quantized.absmax().dequantize();
    let weight = |i: usize| {
        let byte = quantized.packed()[i / 2];
        let code = if i.is_multiple_of(2) { byte >> 4 } else { byte & 15 };
        let number = quantized.quant_type().codebook()[usize::from(code)];
        T::from_f32(number * absmax[i / quantized.blocksize()]).to_f32()
    };
    (0..quantized.num_weights()).map(weight).collect()
}

/// Whether bitsandbytes 0.50 may have dequantized with the wrong scales: its AVX-512 kernel
/// (`dequantizeBlockwise4bitCpu` in `csrc/cpu_ops.cpp`) takes rows of a multiple of 16 for whole blocks, even
/// where a block goes on in the next row. Its other kernels, and its quantization, do not.
fn has_wrong_scales(shape: &[usize], blocksize: usize) -> bool {
    let columns = shape.last().copied().unwrap_or_default();
    columns.is_multiple_of(16) && !columns.is_multiple_of(blocksize)
}

#[test]
fn int8_layers_are_those_of_bitsandbytes() {
    let bytes = read("bnb_int8.safetensors");
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let cases: Vec<&str> = names(&file).filter_map(|name| name.strip_suffix("/weight_int8")).collect();
    assert!(!cases.is_empty());
    for case in cases {
        let tensor = |name: &str| file.tensor(&format!("{case}/{name}")).unwrap();
        let columns = tensor("weight").shape()[1];
        let weight = Int8Rows::quantize(&values::<f16>(&tensor("weight")), columns).unwrap();
        assert_eq!(weight.values(), values::<i8>(&tensor("weight_int8")), "{case}: weights");
        assert_same_bits(case, weight.scb(), &values(&tensor("weight_scale")));

        let inputs = values::<f16>(&tensor("input"));
        let tokens = Int8Tokens::quantize(&inputs, columns, THRESHOLD).unwrap();
        assert_eq!(tokens.values, values::<i8>(&tensor("input_int8")), "{case}: inputs");
        assert_same_bits(case, &tokens.scales, &values(&tensor("input_scale")));
        let outlier_columns: Vec<i64> = tokens.outlier_columns.iter().map(|&column| column as i64).collect();
        assert_eq!(outlier_columns, values::<i64>(&tensor("outlier_cols")), "{case}: outliers");

        let products = int8_matmul_reference(&tokens.values, weight.values(), columns).unwrap();
        assert_eq!(products, values::<i32>(&tensor("int32")), "{case}: products");
        let bias = values::<f16>(&tensor("bias"));
        let output = llm_int8_linear_reference(&inputs, &weight, Some(&bias), THRESHOLD).unwrap();
        assert_near(case, &output, &values(&tensor("output")));
    }
}

/// A saved double quantization whose parts contradict each other is refused when put together.
#[test]
fn damaged_reference_data_are_refused() {
    let bytes = read("bnb_4bit.safetensors");
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let nested: Vec<&str> = names(&file).filter_map(|name| name.strip_suffix("/nested_code")).collect();
    assert!(!nested.is_empty());
    for case in nested {
        let tensor = |name: &str| file.tensor(&format!("{case}/{name}")).unwrap();
        let [quantized, packed] = ["absmax", "packed"].map(|name| tensor(name).data().to_vec());
        let [absmax, code] = ["nested_absmax", "nested_code"].map(|name| values::<f32>(&tensor(name)));
        let more = vec![0; quantized.len() + NESTED_BLOCKSIZE];
        assert!(NestedAbsmax::new(more, absmax.clone(), &code, 0.0).is_err(), "{case}");
        assert!(NestedAbsmax::new(quantized.clone(), absmax.clone(), &[], 0.0).is_err(), "{case}");
        let whole = NestedAbsmax::new(quantized, absmax, &code, 0.0).unwrap();
        let shape = [2 * packed.len() + 2];
        let result = Quantized4Bit::new(FourBit::Nf4, 64, &shape, Precision::Float32, packed, Absmax::Nested(whole));
        assert!(result.unwrap_err().to_string().contains("packed bytes"), "{case}");
    }
}

fn read(name: &str) -> Vec<u8> {
    let root = std::env::var_os("QUANTLAB_GOLDEN").map_or_else(|| Path::new("tests/golden").to_owned(), PathBuf::from);
    let path = root.join(name);
    std::fs::read(&path).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()))
}

fn names<'a>(file: &'a SafeTensors<'_>) -> impl Iterator<Item = &'a str> {
    file.names().into_iter()
}

/// A number as the files hold it.
trait Number: Copy {
    const DTYPE: Dtype;
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($type:ty => $dtype:ident),*) => {$(
        impl Number for $type {
            const DTYPE: Dtype = Dtype::$dtype;
            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().unwrap())
            }
        }
    )*};
}

numbers!(f32 => F32, f16 => F16, bf16 => BF16, i8 => I8, i32 => I32, i64 => I64);

fn values<N: Number>(tensor: &TensorView<'_>) -> Vec<N> {
    assert_eq!(tensor.dtype(), N::DTYPE);
    tensor.data().chunks_exact(size_of::<N>()).map(N::from_bytes).collect()
}

/// A format of weights and outputs, whose numbers can be counted.
trait Stored: Number + Float {
    /// Where the number comes among all of its format, ascending; both zeros at 0.
    fn place(self) -> i64;
}

macro_rules! stored {
    ($($type:ty),*) => {$(
        impl Stored for $type {
            fn place(self) -> i64 {
                let sign = <$type as Float>::from_f32(-0.0).to_bits();
                let magnitude = i64::from(self.to_bits() & !sign);
                if self.is_sign_negative() { -magnitude } else { magnitude }
            }
        }
    )*};
}

stored!(f32, f16, bf16);

fn assert_same_bits(case: &str, found: &[f32], expected: &[f32]) {
    let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<u32>>();
    assert!(bits(found) == bits(expected), "{case}: {found:?} instead of {expected:?}");
}

fn assert_near<T: Stored>(case: &str, found: &[T], expected: &[T]) {
    assert_eq!(found.len(), expected.len(), "{case}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let steps = found.place().abs_diff(expected.place());
        assert!(steps <= u64::from(STEPS), "{case}: number {i}: {} instead of {}", found.to_f32(), expected.to_f32());
    }
}
