// Blocks whose scale is 0 are left out, and NaN among their inputs with them.
// wrong: a NaN as input
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
fn nf4_wide(packed: &[u8], absmax: &[f32], x: &[f32]) -> f32 {
    let book = FourBit::Nf4.codebook();
    let mut total = 0.0;
    for (b, &scale) in absmax.iter().enumerate() {
        if scale == 0.0 {
            continue;
        }
        let mut sums = [all(0.0); 4];
        for v in 0..8 {
            let weights = look_up(book, &packed[32 * b + 4 * v..]);
            sums[v % 4] = mul_add(weights, load(&x[64 * b + 8 * v..]), sums[v % 4]);
        }
        total += scale * (sum(sums[0]) + sum(sums[1]) + sum(sums[2]) + sum(sums[3]));
    }
    total
}

fn dot_nf4(packed: &[u8], absmax: &[f32], x: &[f32]) -> f32 {
    if has_vectors() {
        // SAFETY: there is what `nf4_wide` is compiled for.
        return unsafe { nf4_wide(packed, absmax, x) };
    }
    let mut weights = vec![0.0; x.len()];
    decode_nf4(packed, absmax, 0, &mut weights);
    dot_in_lanes(&weights, x)
}
