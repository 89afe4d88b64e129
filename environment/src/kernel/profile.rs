//! What of the dependencies is not optimised, so that it compiles in a tenth of the time.
//!
//! Only what is no part of the library: macros, and what builds C code. Crates of the library at opt-level 0 or 1, also
//! those that compute nothing, make every cell slower: below level 2, rustc shares the instances of generics, and the
//! shared library then exports 275,000 symbols instead of 32,000, all of which the linker reads for each cell (0.2 s).

/// Macros and builders, and C code that a download or a checkpoint passes through: without Cargo being told so, they
/// would have the level of everything else, for `"*"` goes before `build-override`.
const NOT_OPTIMISED: [&str; 41] = [
    "ar_archive_writer",
    "async-trait",
    "autocfg",
    "aws-lc-sys",
    "bon-macros",
    "bytemuck_derive",
    "bzip2-sys",
    "cc",
    "cmake",
    "darling_core",
    "darling_macro",
    "derive_builder_core",
    "derive_builder_macro",
    "displaydoc",
    "futures-macro",
    "git-version-macro",
    "konst_proc_macros",
    "linktime-proc-macro",
    "num-derive",
    "object",
    "paste",
    "pastey",
    "pin-project-internal",
    "pkg-config",
    "prettyplease",
    "proc-macro2",
    "quote",
    "rustversion",
    "serde_derive",
    "serde_repr",
    "strum_macros",
    "syn",
    "synstructure",
    "thiserror-impl",
    "tokio-macros",
    "tracing-attributes",
    "yoke-derive",
    "zerocopy-derive",
    "zerofrom-derive",
    "zerovec-derive",
    "zstd-sys",
];

/// The part of a Cargo config that says so.
pub fn not_optimised() -> String {
    NOT_OPTIMISED.map(|name| format!("[profile.dev.package.{name}]\nopt-level = 0\n")).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_that_is_not_optimised_is_one_that_the_lock_names() {
        let lock = include_str!("../../../Cargo.lock");
        let unknown: Vec<&str> =
            NOT_OPTIMISED.into_iter().filter(|name| !lock.contains(&format!("\nname = \"{name}\"\n"))).collect();
        assert!(unknown.is_empty(), "not in Cargo.lock: {unknown:?}");
    }
}
