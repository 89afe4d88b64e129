//! Matrices that are larger than a cache, in three formats.

use quantlab::model::WeightMatrix;
use quantlab::quant::FourBit;
use quantlab::report::Table;
use rand::Rng;
use rand::rngs::StdRng;

use crate::cases::random;

/// Weights in a block of NF4, which share a scale.
pub(super) const BLOCK: usize = 64;

/// Matrices in three formats, each of about the same number of bytes, so that memory delivers each in the same time: the
/// fewer bits, the more rows. Their weights are random: speed does not depend on their values.
#[derive(Debug)]
pub struct Matrices {
    /// One row of inputs, (k).
    pub x: Vec<f32>,
    /// (n, k)
    pub float32: Vec<f32>,
    /// (4 n, k)
    pub int8: Vec<i8>,
    /// What a whole number of each row of `int8` stands for: (4 n).
    pub scales: Vec<f32>,
    /// The largest magnitude of each of these rows: 127 steps.
    scb: Vec<f32>,
    sums: Vec<i32>,
    /// (8 n, k), two codes of NF4 a byte.
    pub nf4: Vec<u8>,
    /// A scale for each 64 weights of `nf4`.
    pub absmax: Vec<f32>,
}

impl Matrices {
    /// Random ones of `n` rows in float32, and `k` columns.
    ///
    /// # Panics
    /// `k` is not a multiple of 64.
    pub fn random(n: usize, k: usize) -> Self {
        assert!(k > 0 && k.is_multiple_of(BLOCK), "rows of {k} are not whole blocks of {BLOCK}");
        let mut rng = random(70);
        let floats = |rng: &mut StdRng, n: usize| (0..n).map(|_| rng.random_range(-1.0..1.0_f32)).collect::<Vec<_>>();
        let (x, float32, absmax) = (floats(&mut rng, k), floats(&mut rng, n * k), floats(&mut rng, 8 * n * k / BLOCK));
        let (mut bytes, mut nf4) = (vec![0_u8; 4 * n * k], vec![0_u8; 4 * n * k]);
        rng.fill(&mut bytes[..]);
        rng.fill(&mut nf4[..]);
        let int8: Vec<i8> = bytes.into_iter().map(|byte| byte.cast_signed().max(-127)).collect();
        let sums = int8.chunks_exact(k).map(|row| row.iter().map(|value| i32::from(*value)).sum()).collect();
        let scb: Vec<f32> = (0..4 * n).map(|_| rng.random_range(0.5..1.0)).collect();
        let scales = scb.iter().map(|scb| scb / 127.0).collect();
        let absmax = absmax.iter().map(|scale| 0.75 + 0.25 * scale).collect();
        Self { x, float32, int8, scales, scb, sums, nf4, absmax }
    }

    /// As the library multiplies them: float32, int8, NF4.
    pub fn of_library(&self) -> [WeightMatrix<'_>; 3] {
        let Self { float32, int8, scb, sums, nf4, absmax, .. } = self;
        [
            WeightMatrix::Float32(float32),
            WeightMatrix::Int8 { values: int8, scb, sums },
            WeightMatrix::FourBit { packed: nf4, absmax, quant_type: FourBit::Nf4, blocksize: BLOCK },
        ]
    }

    /// Rows and bytes (scales included) of each.
    pub fn sizes(&self) -> [(&'static str, usize, usize); 3] {
        let Self { float32, int8, scales, nf4, absmax, x, .. } = self;
        [
            ("float32", float32.len() / x.len(), size_of_val(&float32[..])),
            ("int8", scales.len(), int8.len() + size_of_val(&scales[..])),
            ("NF4", 2 * nf4.len() / x.len(), nf4.len() + size_of_val(&absmax[..])),
        ]
    }

    /// What there is of each, as a notebook cell's value.
    pub fn evcxr_display(&self) {
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        Table::new(format!("Matrices of {} columns", self.x.len()))
            .column("format", "", self.sizes().map(|(format, ..)| format))
            .column("rows", "", self.sizes().map(|(_, rows, _)| rows))
            .column("with scales", "MiB", self.sizes().map(|(.., bytes)| mib(bytes)))
            .evcxr_display();
    }
}
