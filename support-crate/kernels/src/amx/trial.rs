//! Finds out by trying whether this machine's tiles are used, and from how many rows of inputs on.
//!
//! The first process that asks for the instruction set, mostly to load a model, compares them with the vectors that they
//! would replace: the results of a few products, and the time of some more. This takes some 100 ms; the outcome is kept in
//! the folder that `QUANTLAB_HOME` names, for this processor and this version of the crate.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use half::bf16;

use super::{Amx, MIN_ROWS, MinRows, NEVER as NEVER_TAKEN};
use crate::isa::Isa;
use crate::matmul::{ActivationQuant, Compute, Epilogue, Matrix, Packed4Bit, PackedInt8, Weights, matmul};
use crate::threads::{scope_of, threads};

/// The outcome of trying the tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// The numbers of rows of inputs from which on they are faster than vectors: with products of bfloat16, and of bytes.
    Faster { bf16: Option<usize>, int8: Option<usize> },
    /// They compute different numbers.
    Wrong,
}

/// Rows of inputs that are timed.
const ROWS: [usize; 4] = [8, 16, 32, 128];

/// Outputs and inputs of the matrix that is timed: 2 MB, as large as a layer and small enough to stay in a cache.
const TIMED: (usize, usize) = (1024, 1024);

/// Each figure is the best of this many products.
const PRODUCTS: usize = 3;

/// Rows of inputs, outputs and inputs of the products whose numbers are compared: whole tiles, and parts of them.
const COMPARED: [(usize, usize, usize); 3] = [(32, 32, 64), (9, 40, 192), (50, 70, 100)];

/// The tiles to use, if any.
pub fn chosen() -> Option<Amx> {
    if !Amx::is_offered() {
        return None;
    }
    let key = key();
    let trial = match kept(&key) {
        Some(trial) => trial,
        // Only now is the system asked for tiles: it would then require larger signal stacks in the whole process.
        None => {
            let trial = Amx::detect().map(of)?;
            if keep(&key, trial) { trial } else { trial.without_times() }
        }
    };
    match trial {
        Trial::Faster { bf16: None, int8: None } | Trial::Wrong => None,
        Trial::Faster { bf16, int8 } => {
            let [bf16, int8] = [bf16, int8].map(|rows| rows.unwrap_or(NEVER_TAKEN));
            Amx::detect().map(|amx| amx.with(MinRows { bf16, int8 }))
        }
    }
}

/// Tries the tiles.
fn of(amx: Amx) -> Trial {
    let (vectors, tiles) = (Isa::Avx512Bf16(amx.vectors()), Isa::Amx(amx.with_min_rows(1)));
    if !COMPARED.iter().all(|&shape| agree(vectors, tiles, shape)) {
        return Trial::Wrong;
    }
    let weights = Numbers::new(TIMED);
    // Those of 4 bits are decoded to bfloat16.
    let [bf16, int8, _] = weights.formats(TIMED);
    let [bf16, int8] = [bf16, int8].map(|weights| {
        from_times(ROWS.map(|rows| (rows, time(vectors, &*weights, rows), time(tiles, &*weights, rows))))
    });
    Trial::Faster { bf16, int8 }
}

/// Decides by the times of vectors and tiles for each number of rows, in ascending order: the fewest rows from which on
/// tiles always win.
fn from_times<const N: usize>(times: [(usize, Duration, Duration); N]) -> Option<usize> {
    let won = times.iter().rev().take_while(|(_, vectors, tiles)| tiles < vectors);
    won.last().map(|&(rows, ..)| rows)
}

/// Weights of every format that tiles multiply.
struct Numbers {
    bf16: Vec<bf16>,
    int8: Vec<i8>,
    packed: Vec<u8>,
    scales: Vec<f32>,
    sums: Vec<i32>,
}

/// The same numbers, between -1 and 1, in every run.
fn numbers(count: usize) -> impl Iterator<Item = f32> {
    let mut state = 1_u32;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    })
    .take(count)
}

const CODE: [f32; 16] =
    [-1.0, -0.75, -0.5, -0.375, -0.25, -0.125, -0.0625, 0.0, 0.0625, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0];

impl Numbers {
    fn new((n, k): (usize, usize)) -> Self {
        let int8: Vec<i8> = numbers(n * k).map(|number| (127.0 * number) as i8).collect();
        let sum = |row: &[i8]| row.iter().map(|&value| i32::from(value)).sum();
        Self {
            bf16: numbers(n * k).map(bf16::from_f32).collect(),
            sums: int8.chunks(k).map(sum).collect(),
            packed: int8.iter().take((n * k).div_ceil(2)).map(|value| value.cast_unsigned()).collect(),
            scales: numbers(n.max((n * k).div_ceil(32))).map(|number| number.abs() + 0.5).collect(),
            int8,
        }
    }

    fn formats(&self, (n, k): (usize, usize)) -> [Box<dyn Weights + '_>; 3] {
        let activations = ActivationQuant::Dynamic { threshold: 0.0 };
        [
            Box::new(&self.bf16[..]),
            Box::new(PackedInt8 { values: &self.int8, absmax: &self.scales[..n], sums: &self.sums, activations }),
            Box::new(Packed4Bit {
                packed: &self.packed,
                absmax: &self.scales[..(n * k).div_ceil(32)],
                minimum: None,
                code: &CODE,
                blocksize: 32,
                columns: None,
                compute: Compute::BFloat16,
            }),
        ]
    }
}

/// Whether products of this shape agree, apart from the order of additions.
fn agree(vectors: Isa, tiles: Isa, (m, n, k): (usize, usize, usize)) -> bool {
    let (numbers_of_weights, x) = (Numbers::new((n, k)), numbers(m * k).collect::<Vec<f32>>());
    numbers_of_weights.formats((n, k)).iter().all(|weights| {
        let [expected, found] = [vectors, tiles].map(|isa| {
            let mut out = vec![f32::NAN; m * n];
            matmul(&scope_of(1, isa), &x, Matrix { weights: &**weights, n, k }, Epilogue::default(), &mut out);
            out
        });
        near(&expected, &found, k)
    })
}

/// Whether these sums of `k` products, of numbers of about 1, differ by rounding only.
fn near(expected: &[f32], found: &[f32], k: usize) -> bool {
    expected.iter().zip(found).all(|(expected, found)| (expected - found).abs() <= 1e-6 * k as f32)
}

/// The best time of a product with `m` rows of inputs, on all threads.
fn time(isa: Isa, weights: &dyn Weights, m: usize) -> Duration {
    let (n, k) = TIMED;
    let (scope, x, mut out) = (scope_of(threads(), isa), numbers(m * k).collect::<Vec<f32>>(), vec![0.0; m * n]);
    let product = |_| {
        let start = Instant::now();
        matmul(&scope, &x, Matrix { weights, n, k }, Epilogue::default(), &mut out);
        start.elapsed()
    };
    (0..=PRODUCTS).map(product).min().unwrap_or(Duration::MAX)
}

/// What a trial is valid for.
fn key() -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let of = |name: &str| {
        let line = processor.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(": ")).map_or("?", |(_, value)| value).to_owned()
    };
    format!(
        "{}, stepping {}, microcode {}, {}",
        of("model name"),
        of("stepping"),
        of("microcode"),
        env!("CARGO_PKG_VERSION")
    )
}

/// Where trials are kept: a line for each key.
fn file() -> Option<PathBuf> {
    std::env::var_os("QUANTLAB_HOME").filter(|home| !home.is_empty()).map(|home| PathBuf::from(home).join("amx-trials"))
}

fn kept(key: &str) -> Option<Trial> {
    let lines = fs::read_to_string(file()?).ok()?;
    lines.lines().filter_map(|line| line.rsplit_once(": ")).rfind(|(of, _)| *of == key)?.1.parse().ok()
}

/// Whether the outcome is kept for later processes.
fn keep(key: &str, trial: Trial) -> bool {
    use std::io::Write;
    let append = |file| fs::OpenOptions::new().append(true).create(true).open(file);
    let line = format!("{key}: {trial}\n");
    file().and_then(|file| append(file).ok()).is_some_and(|mut file| file.write_all(line.as_bytes()).is_ok())
}

impl Trial {
    /// Where each process makes a trial of its own: numbers of rows that do not depend on how long it took, since tiles and
    /// vectors differ in the last bits, and a program is to give the same numbers each time. (Tiles that lose at 128 rows,
    /// too, lose by more than times vary, and stay unused.)
    fn without_times(self) -> Self {
        match self {
            Self::Faster { bf16, int8 } => {
                Self::Faster { bf16: bf16.map(|_| MIN_ROWS.bf16), int8: int8.map(|_| MIN_ROWS.int8) }
            }
            Self::Wrong => Self::Wrong,
        }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Faster { bf16, int8 } => {
                let from = |rows: Option<usize>| rows.map_or(NEVER.to_owned(), |rows| format!("from {rows} rows"));
                write!(f, "bfloat16 {}, int8 {}", from(*bf16), from(*int8))
            }
            Self::Wrong => f.write_str("wrong"),
        }
    }
}

const NEVER: &str = "never";

/// Reads what `Display` writes.
impl FromStr for Trial {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let rows = |from: &str| match from {
            NEVER => Some(None),
            _ => from.strip_prefix("from ")?.strip_suffix(" rows")?.parse().ok().map(Some),
        };
        let both = || {
            let (bf16, int8) = text.strip_prefix("bfloat16 ")?.split_once(", int8 ")?;
            Some(Self::Faster { bf16: rows(bf16)?, int8: rows(int8)? })
        };
        if text == "wrong" { Ok(Self::Wrong) } else { both().ok_or(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_agree_with_vectors_and_other_numbers_do_not() {
        let Some(amx) = Amx::emulated() else { return };
        let (vectors, tiles) = (Isa::Avx512Bf16(amx.vectors()), Isa::Amx(amx.with_min_rows(1)));
        for shape in COMPARED {
            assert!(agree(vectors, tiles, shape), "{shape:?}");
        }
        assert_ne!(of(amx), Trial::Wrong);
        assert!(near(&[1.0, -2.0], &[1.000_01, -2.0], 64) && !near(&[1.0, -2.0], &[1.001, -2.0], 64));
        assert!(!near(&[1.0], &[f32::NAN], 64));
    }

    #[test]
    fn tiles_are_used_from_where_they_never_lose() {
        let of = |tiles: [u64; 3]| {
            let times = [(8, tiles[0]), (16, tiles[1]), (32, tiles[2])];
            from_times(times.map(|(rows, time)| (rows, Duration::from_nanos(10), Duration::from_nanos(time))))
        };
        assert_eq!(of([9, 9, 9]), Some(8));
        assert_eq!(of([9, 10, 5]), Some(32));
        assert_eq!(of([5, 5, 11]), None);
        let each = [Some(16), None].map(|bf16| [Some(128), None].map(|int8| Trial::Faster { bf16, int8 }));
        for trial in [&each.concat()[..], &[Trial::Wrong]].concat() {
            assert_eq!(trial.to_string().parse(), Ok(trial));
        }
        let usual = Trial::Faster { bf16: Some(MIN_ROWS.bf16), int8: None };
        assert_eq!(Trial::Faster { bf16: Some(128), int8: None }.without_times(), usual);
        // The second is what version 0.1 wrote before it tried bytes.
        for text in ["bfloat16 from rows, int8 never", "faster from 8 rows"] {
            assert!(text.parse::<Trial>().is_err());
        }
    }
}
