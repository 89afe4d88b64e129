//! Checks of the sizes that callers pass.
//!
//! Kernels step through memory by products of sizes, and a product that wraps would pass for a small one. So each
//! public function checks here, once, that its slices are as long as its sizes say: the product of the sizes then
//! exists in memory, and parts of it cannot wrap.

/// The product of the sizes of `what`.
///
/// # Panics
/// It is more than a `usize` holds.
#[inline(always)]
pub fn product(what: &str, sizes: &[usize]) -> usize {
    checked_product(sizes).unwrap_or_else(|| refuse(what, None, sizes))
}

/// Checks that `found`, the number of `what`, is the product of `sizes`.
///
/// # Panics
/// It is not. The message names both.
#[inline(always)]
pub fn check(what: &str, found: usize, sizes: &[usize]) {
    if checked_product(sizes) != Some(found) {
        refuse(what, Some(found), sizes);
    }
}

/// Whether `len` numbers have room for this many rows of `width` numbers that begin `stride` apart.
#[inline(always)]
pub fn hold_rows(len: usize, rows: usize, stride: usize, width: usize) -> bool {
    let Some(last) = rows.checked_sub(1) else { return true };
    last.checked_mul(stride).and_then(|start| start.checked_add(width)).is_some_and(|needed| needed <= len)
}

#[inline(always)]
fn checked_product(sizes: &[usize]) -> Option<usize> {
    sizes.iter().try_fold(1_usize, |product, &size| product.checked_mul(size))
}

#[cold]
fn refuse(what: &str, found: Option<usize>, sizes: &[usize]) -> ! {
    match (found, checked_product(sizes)) {
        (Some(found), Some(expected)) => panic!("{what}: {found}, not {expected}, for sizes of {sizes:?}"),
        _ => panic!("{what}: {sizes:?} multiply to more than any memory holds"),
    }
}
