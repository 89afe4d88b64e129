//! Which instruction set computes: detected once, and chosen once.

use std::fmt;
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use crate::amx::Amx;
use crate::simd::*;

/// An instruction set that this processor has, from the plainest to the fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// One number at a time.
    Scalar(Scalar),
    #[cfg(target_arch = "x86_64")]
    /// 8 float32 at a time.
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    /// The same, and products of 32 bytes.
    Avx2Vnni(Avx2Vnni),
    #[cfg(target_arch = "x86_64")]
    /// 16 float32 at a time.
    Avx512(Avx512),
    #[cfg(target_arch = "x86_64")]
    /// The same, and products of 64 bytes.
    Avx512Vnni(Avx512Vnni),
    #[cfg(target_arch = "x86_64")]
    /// The same, and products of 32 bfloat16.
    Avx512Bf16(Avx512Bf16),
    #[cfg(target_arch = "x86_64")]
    /// The same, and products of 16 x 16 x 32 bfloat16 or 16 x 16 x 64 bytes in tiles. Only where it is asked for.
    Amx(Amx),
    #[cfg(target_arch = "aarch64")]
    /// 4 float32 at a time, bytes widened to 16 bits (every ARM64 processor).
    Neon(Neon),
    #[cfg(target_arch = "aarch64")]
    /// The same, and products of 16 bytes (since 2018: Cortex-A55 and A76, Neoverse N1, Apple M1).
    NeonDotprod(NeonDotprod),
    #[cfg(target_arch = "aarch64")]
    /// The same, and products of 8 bfloat16, and of matrices of bytes (since 2021: Cortex-A510, Neoverse V1, Apple M2).
    NeonBf16(NeonBf16),
}

/// The environment variable that names the instruction set to use instead of the fastest.
const VARIABLE: &str = "QUANTLAB_CPU_ISA";

/// What `QUANTLAB_CPU_ISA` names is no instruction set of this processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownIsa {
    name: String,
}

impl Isa {
    /// As [`chosen`](Self::chosen), and the fastest if the name is wrong.
    pub fn best() -> Self {
        Self::chosen().unwrap_or_else(|_| Self::fastest())
    }

    /// The one that `QUANTLAB_CPU_ISA` names when this is first asked, to see how fast this processor would be
    /// without the instructions beyond; else the fastest.
    ///
    /// # Errors
    /// A name that is none of an instruction set of this processor.
    pub fn chosen() -> Result<Self, UnknownIsa> {
        static CHOSEN: OnceLock<Result<Isa, UnknownIsa>> = OnceLock::new();
        let choose = || match std::env::var_os(VARIABLE) {
            None => Ok(Self::fastest()),
            Some(name) => Self::named(&name.to_string_lossy()),
        };
        CHOSEN.get_or_init(choose).clone()
    }

    fn named(name: &str) -> Result<Self, UnknownIsa> {
        let found = Self::available().into_iter().find(|isa| isa.name() == name);
        found.ok_or_else(|| UnknownIsa { name: name.to_owned() })
    }

    fn fastest() -> Self {
        Self::unasked().last().copied().unwrap_or(Self::Scalar(Scalar))
    }

    /// `scalar`, `avx2`, ...: as `QUANTLAB_CPU_ISA` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar(_) => "scalar",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2Vnni(_) => "avx2-vnni",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni(_) => "avx512-vnni",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16(_) => "avx512-bf16",
            #[cfg(target_arch = "x86_64")]
            Self::Amx(_) => "amx",
            #[cfg(target_arch = "aarch64")]
            Self::Neon(_) => "neon",
            #[cfg(target_arch = "aarch64")]
            Self::NeonDotprod(_) => "neon-dotprod",
            #[cfg(target_arch = "aarch64")]
            Self::NeonBf16(_) => "neon-bf16",
        }
    }

    /// All that this processor has, the fastest last.
    pub fn available() -> Vec<Self> {
        let sets = Self::unasked();
        #[cfg(all(target_arch = "x86_64", not(test)))]
        let sets = sets.into_iter().chain(Amx::detect().map(Self::Amx)).collect();
        // Every test of a kernel is one of AMX too, for products of any number of rows.
        #[cfg(all(target_arch = "x86_64", test))]
        let sets = sets.into_iter().chain(Amx::emulated().map(|amx| Self::Amx(amx.with_fewest_rows(1)))).collect();
        sets
    }

    /// Those that are used without being named: not AMX, whose products have run in emulation only. How fast they are,
    /// and from how many rows on they are faster, is to be measured first: `cargo bench -p quantlab-kernels --bench amx`.
    /// (Nor is the system asked for tiles in vain: it would then ask for larger signal stacks in all of the process.)
    fn unasked() -> Vec<Self> {
        let mut sets = vec![Self::Scalar(Scalar)];
        #[cfg(target_arch = "x86_64")]
        {
            sets.extend(Avx2::detect().map(Self::Avx2));
            sets.extend(Avx2Vnni::detect().map(Self::Avx2Vnni));
            sets.extend(Avx512::detect().map(Self::Avx512));
            sets.extend(Avx512Vnni::detect().map(Self::Avx512Vnni));
            sets.extend(Avx512Bf16::detect().map(Self::Avx512Bf16));
        }
        #[cfg(target_arch = "aarch64")]
        {
            sets.extend(Neon::detect().map(Self::Neon));
            sets.extend(NeonDotprod::detect().map(Self::NeonDotprod));
            sets.extend(NeonBf16::detect().map(Self::NeonBf16));
        }
        sets
    }

    /// Whether there is an instruction for products of bfloat16.
    pub(crate) fn multiplies_bf16(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16(_) | Self::Amx(_) => true,
            #[cfg(target_arch = "aarch64")]
            Self::NeonBf16(_) => true,
            _ => false,
        }
    }

    /// [`Simd::UNSIGNED`]
    pub(crate) fn takes_unsigned_bytes(self) -> bool {
        fn unsigned<S: Simd>(_: S) -> bool {
            S::UNSIGNED
        }
        match self {
            Self::Scalar(simd) => unsigned(simd),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => unsigned(simd),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2Vnni(simd) => unsigned(simd),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(simd) => unsigned(simd),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni(simd) => unsigned(simd),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16(simd) => unsigned(simd),
            #[cfg(target_arch = "x86_64")]
            Self::Amx(_) => false,
            #[cfg(target_arch = "aarch64")]
            Self::Neon(simd) => unsigned(simd),
            #[cfg(target_arch = "aarch64")]
            Self::NeonDotprod(simd) => unsigned(simd),
            #[cfg(target_arch = "aarch64")]
            Self::NeonBf16(simd) => unsigned(simd),
        }
    }

    /// Runs a kernel, compiled for this instruction set's vectors of float32.
    #[inline]
    pub(crate) fn dispatch(self, kernel: impl FloatKernel) {
        match self {
            Self::Scalar(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2Vnni(simd) => simd.base().vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni(simd) => simd.base().vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16(simd) => simd.base().base().vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Amx(amx) => amx.vectors().base().base().vectorize(kernel),
            #[cfg(target_arch = "aarch64")]
            Self::Neon(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "aarch64")]
            Self::NeonDotprod(simd) => simd.base().vectorize(kernel),
            #[cfg(target_arch = "aarch64")]
            Self::NeonBf16(simd) => simd.base().base().vectorize(kernel),
        }
    }

    /// Runs a kernel, compiled for this instruction set's products of bfloat16.
    #[inline]
    pub(crate) fn dispatch_bf16(self, kernel: impl Bf16Kernel) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "aarch64")]
            Self::NeonBf16(simd) => simd.vectorize(kernel),
            other => other.dispatch(kernel),
        }
    }

    /// Runs a kernel, compiled for this instruction set's products of bytes.
    #[inline]
    pub(crate) fn dispatch_bytes(self, kernel: impl ByteKernel) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2Vnni(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16(simd) => simd.base().vectorize(kernel),
            #[cfg(target_arch = "aarch64")]
            Self::NeonDotprod(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "aarch64")]
            Self::NeonBf16(simd) => simd.vectorize(kernel),
            other => other.dispatch(kernel),
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for UnknownIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Isa::available().into_iter().map(Isa::name).collect();
        let (name, names) = (&self.name, names.join(", "));
        write!(f, "{VARIABLE} is {name:?}, which names no instruction set of this processor (it has {names})")
    }
}

impl std::error::Error for UnknownIsa {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruction_sets_are_found_by_their_names() {
        for isa in Isa::available() {
            assert_eq!(Isa::named(isa.name()), Ok(isa));
        }
        assert_ne!(Isa::fastest().name(), "amx", "only where it is asked for");
        let error = Isa::named("mmx").unwrap_err().to_string();
        assert!(error.contains("QUANTLAB_CPU_ISA") && error.contains("\"mmx\"") && error.contains("scalar"), "{error}");
    }
}
