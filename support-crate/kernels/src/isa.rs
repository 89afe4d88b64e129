//! Which instruction set computes: detected once, and chosen once.

use std::fmt;
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use crate::amx::Amx;
use crate::simd::*;

/// Defines [`Isa`] with a line for each instruction set: what it is, its type, its name, how it is detected if it is
/// used without being named, and which of its vectors are those of float32.
macro_rules! isas {
    ($($(#[$doc:meta])* $set:ident, $name:literal, $found:expr, $simd:ident => $floats:expr;)+) => {
        /// An instruction set that this processor has, from the plainest to the fastest.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Isa {
            $($(#[$doc])* $set($set),)+
        }

        impl Isa {
            /// Its name, as in `QUANTLAB_CPU_ISA`: `scalar`, `avx2`, ...
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$set(_) => $name,)+
                }
            }

            /// Those that are used without being named.
            fn unasked() -> Vec<Self> {
                [$($found.map(Self::$set)),+].into_iter().flatten().collect()
            }
        }

        /// Dispatches by vectors of float32.
        impl<K: FloatKernel> Dispatch<K> for Isa {
            #[inline]
            fn dispatch(self, kernel: K) {
                match self {
                    // SAFETY: the value exists, so the processor has the instructions.
                    $(Self::$set($simd) => unsafe { $floats.enabled(kernel) },)+
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
isas! {
    /// One number at a time.
    Scalar, "scalar", Some(Scalar), simd => simd;
    /// 8 float32 at a time.
    Avx2, "avx2", Avx2::detect(), simd => simd;
    /// The same, and products of 32 bytes.
    Avx2Vnni, "avx2-vnni", Avx2Vnni::detect(), simd => simd.base();
    /// 16 float32 at a time.
    Avx512, "avx512", Avx512::detect(), simd => simd;
    /// The same, and products of 64 bytes.
    Avx512Vnni, "avx512-vnni", Avx512Vnni::detect(), simd => simd.base();
    /// The same, and products of 32 bfloat16.
    Avx512Bf16, "avx512-bf16", Avx512Bf16::detect(), simd => simd.base().base();
    /// The same, and products of 16 x 16 x 32 bfloat16 or 16 x 16 x 64 bytes in tiles: used where it is asked for, or
    /// where a trial on this machine found it right and faster (`amx/trial.rs`).
    Amx, "amx", None, amx => amx.vectors().base().base();
}
#[cfg(target_arch = "aarch64")]
isas! {
    /// One number at a time.
    Scalar, "scalar", Some(Scalar), simd => simd;
    /// 4 float32 at a time, bytes widened to 16 bits (every ARM64 processor).
    Neon, "neon", Neon::detect(), simd => simd;
    /// The same, and products of 16 bytes (since 2018: Cortex-A55 and A76, Neoverse N1, Apple M1).
    NeonDotprod, "neon-dotprod", NeonDotprod::detect(), simd => simd.base();
    /// The same, and products of 8 bfloat16, and of matrices of bytes (since 2021: Cortex-A510, Neoverse V1, Apple M2).
    NeonBf16, "neon-bf16", NeonBf16::detect(), simd => simd.base().base();
}
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
isas! {
    /// One number at a time.
    Scalar, "scalar", Some(Scalar), simd => simd;
}

/// The environment variable that names the instruction set to use instead of the fastest.
const VARIABLE: &str = "QUANTLAB_CPU_ISA";

/// `QUANTLAB_CPU_ISA` does not name an instruction set of this processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownIsa {
    name: String,
}

/// How an instruction set takes inputs that are bytes: [`Simd::UNSIGNED`], [`Simd::INVERTS`] and
/// [`PanelDots::SPLITS`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ByteForm {
    pub(crate) unsigned: bool,
    pub(crate) inverts: bool,
    pub(crate) splits: bool,
}

impl Isa {
    /// As [`chosen`](Self::chosen), but the fastest if the name is wrong.
    pub fn best() -> Self {
        static FASTEST: OnceLock<Isa> = OnceLock::new();
        Self::chosen().unwrap_or_else(|_| *FASTEST.get_or_init(Self::fastest))
    }

    /// The instruction set that `QUANTLAB_CPU_ISA` names when this is first called, to see how fast this processor
    /// would be without the instructions beyond it; otherwise the fastest.
    ///
    /// # Errors
    /// A name that is not one of an instruction set of this processor.
    pub fn chosen() -> Result<Self, UnknownIsa> {
        static CHOSEN: OnceLock<Result<Isa, UnknownIsa>> = OnceLock::new();
        let choose = || match std::env::var_os(VARIABLE) {
            None => Ok(Self::fastest()),
            Some(name) => Self::named(&name.to_string_lossy()),
        };
        CHOSEN.get_or_init(choose).clone()
    }

    fn named(name: &str) -> Result<Self, UnknownIsa> {
        // Looking for AMX asks the system for it, which then requires larger signal stacks in the whole process.
        let of = |sets: Vec<Self>| sets.into_iter().find(|isa| isa.name() == name);
        of(Self::unasked()).or_else(|| of(Self::available())).ok_or_else(|| UnknownIsa { name: name.to_owned() })
    }

    fn fastest() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(amx) = crate::amx::chosen() {
            return Self::Amx(amx);
        }
        Self::unasked().last().copied().unwrap_or(Self::Scalar(Scalar))
    }

    /// All that this processor has, the fastest last.
    pub fn available() -> Vec<Self> {
        let sets = Self::unasked();
        #[cfg(all(target_arch = "x86_64", not(test)))]
        let sets = sets.into_iter().chain(Amx::detect().map(Self::Amx)).collect();
        // Every test of a kernel also covers a set that the processor has in another encoding, and AMX, for products of
        // any number of rows.
        #[cfg(all(target_arch = "x86_64", test))]
        let sets = sets
            .into_iter()
            .chain(Avx2Vnni::encoded_as_avx512().map(Self::Avx2Vnni))
            .chain(Amx::emulated().map(|amx| Self::Amx(amx.with_min_rows(1))))
            .collect();
        sets
    }

    /// The instruction set that computes a product of `m` rows of inputs, other than bytes: tiles only if there are enough
    /// of them.
    pub(crate) fn for_rows(self, #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables))] m: usize) -> Self {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Amx(amx) if !amx.takes(m) => self.without_tiles(),
            _ => self,
        }
    }

    /// The same for products of bytes.
    pub(crate) fn for_bytes(self, #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables))] m: usize) -> Self {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Amx(amx) if !amx.takes_bytes(m) => self.without_tiles(),
            _ => self,
        }
    }

    /// Whether products of bfloat16, of enough rows, are computed in Intel's tiles, which add in another order than the
    /// vectors that compute those of a few rows.
    pub fn has_tiles_for_bf16(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Amx(amx) => amx.ever_takes(),
            _ => false,
        }
    }

    /// The vectors that compute what tiles do not.
    pub(crate) fn without_tiles(self) -> Self {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Amx(amx) => Self::Avx512Bf16(amx.vectors()),
            _ => self,
        }
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

    /// How the set that [`dispatch_bytes`](Self::dispatch_bytes) runs takes bytes; not that of AMX, whose tiles take them as
    /// they are.
    pub(crate) fn byte_form(self) -> ByteForm {
        struct Ask<'a>(&'a mut ByteForm);
        impl<S: PanelDots> Kernel<S> for Ask<'_> {
            #[inline(always)]
            fn run(self, _: S) {
                *self.0 = ByteForm { unsigned: S::UNSIGNED, inverts: S::INVERTS, splits: S::SPLITS };
            }
        }
        let mut form = ByteForm::default();
        self.dispatch_bytes(Ask(&mut form));
        form
    }

    /// Runs a kernel, compiled for this instruction set's products of bfloat16.
    #[inline]
    pub(crate) fn dispatch_bf16(self, kernel: impl Bf16Kernel) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16(simd) => simd.dispatch(kernel),
            #[cfg(target_arch = "aarch64")]
            Self::NeonBf16(simd) => simd.dispatch(kernel),
            other => other.dispatch(kernel),
        }
    }

    /// Runs a kernel, compiled for this instruction set's products of bytes.
    #[inline]
    pub(crate) fn dispatch_bytes(self, kernel: impl ByteKernel) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2Vnni(simd) => simd.dispatch(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni(simd) => simd.dispatch(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16(simd) => simd.base().dispatch(kernel),
            #[cfg(target_arch = "aarch64")]
            Self::NeonDotprod(simd) => simd.dispatch(kernel),
            #[cfg(target_arch = "aarch64")]
            Self::NeonBf16(simd) => simd.dispatch(kernel),
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
        write!(f, "{VARIABLE} is {name:?}, which is not an instruction set of this processor (it has {names})")
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
        let error = Isa::named("mmx").unwrap_err().to_string();
        assert!(error.contains("QUANTLAB_CPU_ISA") && error.contains("\"mmx\"") && error.contains("scalar"), "{error}");
    }
}
