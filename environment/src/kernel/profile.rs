//! How everything but the cells is optimised.
//!
//! Optimising takes a compiler two to twenty times as long, and of the 400 crates under the library few compute
//! anything while a lesson measures or a person waits. Those are named here; the others, among them every procedural
//! macro, are compiled as quickly as they can be.

/// The crates that compute: at full speed.
const FULL_SPEED: [&str; 68] = [
    // The library, and what its generic code is made of.
    "quantlab",
    "quantlab-kernels",
    "bytemuck",
    "crossbeam-deque",
    "crossbeam-epoch",
    "crossbeam-utils",
    "half",
    "libm",
    "memmap2",
    "num-traits",
    "rayon",
    "rayon-core",
    // candle's tensors and products.
    "candle-core",
    "candle-nn",
    "dyn-stack",
    "float8",
    "gemm",
    "gemm-common",
    "gemm-f16",
    "gemm-f32",
    "gemm-f64",
    "num-complex",
    "pulp",
    "reborrow",
    // libtorch's, which computes by itself: a call is to cost nothing.
    "ndarray",
    "tch",
    "torch-sys",
    // Random weights and samples.
    "ppv-lite86",
    "rand",
    "rand_chacha",
    "rand_core",
    "rand_distr",
    // Text into tokens.
    "ahash",
    "aho-corasick",
    "compact_str",
    "daachorse",
    "dary_heap",
    "fancy-regex",
    "hashbrown",
    "itertools",
    "memchr",
    "onig",
    "onig_sys",
    "regex",
    "regex-automata",
    "spm_precompiled",
    "tokenizers",
    "unicode-normalization-alignments",
    "unicode-segmentation",
    // A model's files: what they hold, and what a download is packed and hashed with.
    "blake3",
    "byteorder",
    "gearhash",
    "lz4_flex",
    "safetensors",
    "serde",
    "serde_core",
    "serde_json",
    "sha2",
    "zmij",
    // A figure's picture.
    "fdeflate",
    "flate2",
    "miniz_oxide",
    "png",
    "resvg",
    "simd-adler32",
    "tiny-skia",
    "tiny-skia-path",
    "usvg",
];

/// The part of a Cargo config that says so.
pub fn full_speed() -> String {
    FULL_SPEED.map(|name| format!("[profile.dev.package.{name}]\nopt-level = 3\n")).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_at_full_speed_is_one_that_the_lock_names() {
        let lock = include_str!("../../../Cargo.lock");
        let unknown: Vec<&str> =
            FULL_SPEED.into_iter().filter(|name| !lock.contains(&format!("\nname = \"{name}\"\n"))).collect();
        assert!(unknown.is_empty(), "not in Cargo.lock: {unknown:?}");
    }
}
