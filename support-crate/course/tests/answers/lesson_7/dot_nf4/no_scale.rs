// Without scales.
// wrong: the scales are missing
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
fn nf4_wide(packed: &[u8], absmax: &[f32], x: &[f32]) -> f32 {
    let (book, mut totals) = (FourBit::Nf4.codebook(), [all(0.0); 4]);
    let (blocks, inputs) = (packed.as_chunks::<32>().0, x.as_chunks::<64>().0);
    for ((bytes, scale), x) in blocks.iter().zip(absmax).zip(inputs) {
        let mut sums = [all(0.0); 4];
        for i in 0..8 {
            let weights = look_up(book, &bytes[4 * i..]);
            sums[i % 4] = mul_add(weights, load(&x[8 * i..]), sums[i % 4]);
        }
        for i in 0..4 {
            totals[i] = mul_add(all(1.0), sums[i], totals[i]);
        }
    }
    let [a, b, c, d] = totals;
    sum(a) + sum(b) + sum(c) + sum(d)
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
