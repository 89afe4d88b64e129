// Each weight times its scale.
// right
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
fn nf4_wide(packed: &[u8], absmax: &[f32], x: &[f32]) -> f32 {
    let mut total = 0.0;
    for (block, bytes) in packed.chunks_exact(32).enumerate() {
        for (i, bytes) in bytes.chunks_exact(4).enumerate() {
            let zeros = all(0.0);
            let weights = mul_add(look_up(FourBit::Nf4.codebook(), bytes), all(absmax[block]), zeros);
            total += sum(mul_add(weights, load(&x[64 * block + 8 * i..]), zeros));
        }
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
