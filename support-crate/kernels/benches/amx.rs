//! AMX against AVX-512, to choose from how many rows of inputs on a product is one for AMX (`MIN_ROWS` in
//! `src/amx/mod.rs`): `cargo bench -p quantlab-kernels --bench amx`, on a machine that does nothing else. With
//! `RAYON_NUM_THREADS=1`, of one core.

#[cfg(target_arch = "x86_64")]
use quantlab_kernels::Isa;

fn main() {
    #[cfg(target_arch = "x86_64")]
    match Isa::available().last() {
        Some(&Isa::Amx(amx)) => {
            return measure::compare(Isa::Avx512Bf16(amx.vectors()), Isa::Amx(amx.with_min_rows(1)));
        }
        _ => eprintln!("The processor is {:?}.", processor()),
    }
    println!("Nothing measured: this processor has no AMX, or the system (Linux 5.16 or later) does not permit it.");
}

#[cfg(target_arch = "x86_64")]
fn processor() -> String {
    let all = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = all.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    name.trim_start_matches([':', '\t', ' ']).to_owned()
}

#[cfg(target_arch = "x86_64")]
mod measure {
    use std::ops::Range;
    use std::time::{Duration, Instant};

    use half::bf16;
    use quantlab_kernels::*;

    /// Outputs and inputs of GPT-2 124M's layers, the last one its head.
    const SHAPES: [(usize, usize); 4] = [(2304, 768), (3072, 768), (768, 3072), (50240, 768)];
    const ROWS: [usize; 8] = [1, 2, 4, 8, 16, 32, 128, 512];

    /// Weights of a format are this many bytes, used one part after the other: a model's come from memory too.
    const BYTES: usize = 256 << 20;

    /// Each figure is the best of so many products, and of as many more as take this long.
    const PRODUCTS: usize = 3;
    const TIME: Duration = Duration::from_millis(300);

    /// All that any matrix is made of.
    struct Numbers {
        bf16: Vec<bf16>,
        bytes: Vec<i8>,
        packed: Vec<u8>,
        scales: Vec<f32>,
        sums: Vec<i32>,
        code: [f32; 16],
    }

    pub fn compare(vectors: Isa, amx: Isa) {
        println!("{}, {} threads; GFLOP/s of {vectors} and {amx}", super::processor(), threads());
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        let numbers = Numbers {
            bf16: (0..BYTES / 2).map(|_| bf16::from_f32(next() as f32 / 8_388_608.0 - 1.0)).collect(),
            bytes: (0..BYTES).map(|_| (next() % 255) as i8).collect(),
            packed: (0..BYTES).map(|_| next() as u8).collect(),
            scales: vec![0.5; BYTES / 32],
            sums: vec![0; BYTES / 768],
            code: std::array::from_fn(|i| i as f32 / 7.5 - 1.0),
        };
        for format in ["bfloat16", "int8", "4-bit in bfloat16"] {
            for (n, k) in SHAPES {
                print!("{format}, {n} x {k}:");
                for m in ROWS {
                    let x: Vec<f32> = (0..m * k).map(|_| next() as f32 / 8_388_608.0 - 1.0).collect();
                    let [without, with] = [vectors, amx].map(|isa| speed(isa, &numbers, format, (n, k), &x));
                    print!("  {m}: {without:.0}/{with:.0} ({:.2}x)", with / without);
                }
                println!();
            }
        }
    }

    /// GFLOP/s, of the fastest product.
    fn speed(isa: Isa, numbers: &Numbers, format: &str, (n, k): (usize, usize), x: &[f32]) -> f64 {
        let m = x.len() / k;
        let mut out = vec![0.0; m * n];
        let (scope, start) = (thread_scope().with_isa(isa), Instant::now());
        let (mut best, mut products) = (Duration::MAX, 0);
        while start.elapsed() < TIME || products < PRODUCTS {
            let weights = &*stored(numbers, format, (n, k), products);
            let start = Instant::now();
            matmul(&scope, x, Matrix { weights, n, k }, Epilogue::default(), &mut out);
            best = best.min(start.elapsed());
            products += 1;
        }
        2.0 * (m * n * k) as f64 / best.as_secs_f64() / 1e9
    }

    /// A part of the numbers as a matrix: the next one for each product, and the first after the last.
    fn stored<'a>(numbers: &'a Numbers, format: &str, (n, k): (usize, usize), product: usize) -> Box<dyn Weights + 'a> {
        let Numbers { bf16, bytes, packed, scales, sums, code } = numbers;
        let part = |len: usize| {
            let first = product % (len / (n * k)) * n * k;
            first..first + n * k
        };
        match format {
            "bfloat16" => Box::new(&bf16[part(bf16.len())]),
            "int8" => {
                let (values, activations) = (&bytes[part(bytes.len())], ActivationQuant::Dynamic { threshold: 0.0 });
                Box::new(PackedInt8 { values, absmax: &scales[..n], sums: &sums[..n], activations })
            }
            _ => {
                let Range { start, end } = part(2 * packed.len());
                let (packed, absmax) = (&packed[start / 2..end / 2], &scales[..n * k / 64]);
                Box::new(Packed4Bit {
                    packed,
                    absmax,
                    minimum: None,
                    code,
                    blocksize: 64,
                    compute: Compute::BFloat16,
                    columns: None,
                })
            }
        }
    }
}
