//! Scales and minima of [`GroupedInt`](super::GroupedInt) in panels.

use half::f16;

use super::code_bits::PANEL;
use crate::simd::{Simd, widen};
use crate::sizes;

/// A number for each group: (panels, groups of a row, 16).
#[derive(Debug, Clone, Copy)]
pub enum Scales<'a> {
    /// As they are.
    Float32(&'a [f32]),
    /// As they are.
    Float16(&'a [f16]),
    /// Integers, each times the number of its 256 weights: (panels, k / 256, 16).
    Nested(&'a [i8], &'a [f16]),
}

/// Weights that share what [`Scales::Nested`] are multiplied by.
pub(super) const SUPER_GROUP: usize = 256;

impl Scales<'_> {
    /// Panics unless there is a number for each group.
    pub(super) fn check(&self, what: &str, panels: usize, k: usize, group: usize) {
        let groups = &[panels, k / group, PANEL];
        match self {
            Self::Float32(scales) => sizes::check(what, scales.len(), groups),
            Self::Float16(scales) => sizes::check(what, scales.len(), groups),
            Self::Nested(steps, of_256) => {
                assert!(k.is_multiple_of(SUPER_GROUP), "rows of {k} numbers are not whole groups of {SUPER_GROUP}");
                assert!(SUPER_GROUP.is_multiple_of(group), "groups of {group} numbers do not divide {SUPER_GROUP}");
                sizes::check(what, steps.len(), groups);
                sizes::check(what, of_256.len(), &[panels, k / SUPER_GROUP, PANEL]);
            }
        }
    }

    /// Those of a panel as float32: (groups, 16).
    #[inline(always)]
    pub(super) fn widen<S: Simd>(&self, simd: S, panel: usize, group: usize, out: &mut [f32]) {
        let len = out.len();
        match self {
            Self::Float32(scales) => out.copy_from_slice(&scales[panel * len..][..len]),
            Self::Float16(scales) => widen(simd, &scales[panel * len..][..len], out),
            Self::Nested(steps, of_256) => {
                let together = SUPER_GROUP / group * PANEL;
                let of_panel = len / together * PANEL;
                let steps = steps[panel * len..][..len].chunks_exact(together);
                let of_256 = of_256[panel * of_panel..][..of_panel].chunks_exact(PANEL);
                for ((out, steps), of_256) in out.chunks_exact_mut(together).zip(steps).zip(of_256) {
                    let mut factors = [0.0; PANEL];
                    widen(simd, of_256, &mut factors);
                    for (out, steps) in out.chunks_exact_mut(PANEL).zip(steps.chunks_exact(PANEL)) {
                        for at in (0..PANEL).step_by(S::LANES) {
                            // SAFETY: all three have 16 numbers, which are whole vectors.
                            unsafe {
                                let steps = simd.load_i8(steps.as_ptr().add(at));
                                let numbers = simd.mul(steps, simd.load(factors.as_ptr().add(at)));
                                simd.store(numbers, out.as_mut_ptr().add(at));
                            }
                        }
                    }
                }
            }
        }
    }
}
