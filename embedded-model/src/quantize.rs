//! What quantization leaves of a linear layer's weights and inputs, as bitsandbytes and quantlab round them.
//!
//! Rounded numbers stay in float32, so that the model computes with them as with any others.

use std::fmt;

use quantlab::quant::FourBit;
use tch::Tensor;

/// Weights that share a scale in 4 bits.
pub const BLOCKSIZE: i64 = 64;
/// Inputs of this magnitude or more are not rounded to int8 (`llm_int8_threshold`).
const OUTLIER: f64 = 6.0;
/// The largest int8.
const LARGEST: f64 = 127.0;

/// A format that weights are rounded to after training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// LLM.int8(): a scale for each output, inputs rounded too.
    Int8,
    /// NormalFloat in blocks of 64.
    Nf4,
    /// Floating point of 4 bits in blocks of 64.
    Fp4,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Int8, Self::Nf4, Self::Fp4];

    /// The weights `[in, out]` of a linear layer, each rounded to a number that the format has. In 4 bits they
    /// must make whole blocks.
    pub fn round_weight(self, weight: &Tensor) -> Tensor {
        // Quantizers see `[out, in]`: there a row belongs to one output, and blocks run along rows.
        let weight = weight.tr();
        let rounded = match self {
            Self::Int8 => round_rows(&weight),
            Self::Nf4 => round_blocks(&weight, FourBit::Nf4),
            Self::Fp4 => round_blocks(&weight, FourBit::Fp4),
        };
        rounded.tr().contiguous()
    }

    /// The inputs `[tokens, in]` of a linear layer, rounded where the format rounds them.
    pub fn round_input(self, input: &Tensor) -> Tensor {
        match self {
            Self::Int8 => {
                let outlier = input.abs().ge(OUTLIER);
                let rounded = round_rows(&input.masked_fill(&outlier, 0.0));
                input.where_self(&outlier, &rounded)
            }
            Self::Nf4 | Self::Fp4 => input.shallow_clone(),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Int8 => "LLM.int8()",
            Self::Nf4 => "NF4",
            Self::Fp4 => "FP4",
        })
    }
}

/// Rounds each row to 255 equal steps.
fn round_rows(rows: &Tensor) -> Tensor {
    let absmax = rows.abs().amax([-1], true);
    (rows * (factor(&absmax) * LARGEST)).round() * absmax / LARGEST
}

/// Rounds each block of the flattened matrix to the nearest of the format's numbers times its largest magnitude.
fn round_blocks(matrix: &Tensor, format: FourBit) -> Tensor {
    let mut numbers = format.codebook().to_vec();
    numbers.sort_by(f32::total_cmp);
    // FP4 has a zero of either sign.
    numbers.dedup();
    let thresholds: Vec<f32> = numbers.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect();
    let on_device = |numbers: &[f32]| Tensor::from_slice(numbers).to_device(matrix.device());
    let blocks = matrix.reshape([-1, BLOCKSIZE]);
    let absmax = blocks.abs().amax([-1], true);
    let scaled = &blocks * factor(&absmax);
    let below = scaled.bucketize(&on_device(&thresholds), false, false);
    (on_device(&numbers).take(&below) * absmax).reshape(matrix.size())
}

/// One by each number, or nothing by zero: what has a largest magnitude of zero stays zero.
fn factor(absmax: &Tensor) -> Tensor {
    absmax.reciprocal().masked_fill(&absmax.eq(0.0), 0.0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tch::Kind;

    use super::*;

    /// Reference data from bitsandbytes, by name.
    struct Golden(Vec<(String, Tensor)>);

    impl Golden {
        fn read(name: &str) -> Self {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../support-crate/tests/golden");
            Self(Tensor::read_safetensors(folder.join(name)).expect("reference data"))
        }

        fn get(&self, name: &str) -> Tensor {
            let found = self.0.iter().find(|(other, _)| other == name);
            found.expect(name).1.to_kind(Kind::Float)
        }

        /// The names that end so, without their ends.
        fn cases(&self, end: &str) -> Vec<&str> {
            let cases: Vec<_> = self.0.iter().filter_map(|(name, _)| name.strip_suffix(end)).collect();
            assert!(!cases.is_empty(), "no reference for {end}");
            cases
        }
    }

    #[test]
    fn four_bits_are_those_of_bitsandbytes() {
        let golden = Golden::read("bnb_4bit.safetensors");
        for (format, name) in [(Format::Nf4, "nf4"), (Format::Fp4, "fp4")] {
            let end = format!("/{name}/b{BLOCKSIZE}/dequantized");
            for case in golden.cases(&end) {
                let weight = golden.get(&format!("{case}/input"));
                if weight.numel() as i64 % BLOCKSIZE != 0 {
                    continue; // the model has whole blocks only
                }
                let rounded = format.round_weight(&weight.tr()).tr();
                assert!(rounded.allclose(&golden.get(&format!("{case}{end}")), 1e-6, 0.0, false), "{case} {format}");
            }
        }
    }

    #[test]
    fn int8_is_that_of_bitsandbytes() {
        let golden = Golden::read("bnb_int8.safetensors");
        for case in golden.cases("/weight_int8") {
            let get = |name: &str| golden.get(&format!("{case}/{name}"));
            let weight = get("weight_int8") * get("weight_scale").unsqueeze(-1) / LARGEST;
            let rounded = Format::Int8.round_weight(&get("weight").tr()).tr();
            assert!(rounded.allclose(&weight, 1e-5, 1e-7, false), "{case}");
        }
    }

    #[test]
    fn outliers_and_inputs_of_4_bit_layers_are_not_rounded() {
        let input = Tensor::from_slice2(&[[0.1_f32, -7.0, 2.0, 1.003], [0.0, 0.0, 0.0, 0.0]]);
        assert_eq!(Format::Nf4.round_input(&input), input);
        let rounded = Format::Int8.round_input(&input);
        let step = 2.0 / 127.0;
        let expected = Tensor::from_slice2(&[[6.0 * step, -7.0, 2.0, 64.0 * step], [0.0; 4]]).to_kind(Kind::Float);
        assert!(rounded.allclose(&expected, 1e-6, 1e-7, false), "{rounded}");
    }
}
