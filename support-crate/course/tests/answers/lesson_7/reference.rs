// What later exercises use of those before them.
pub fn dot_in_order(w: &[f32], x: &[f32]) -> f32 {
    w.iter().zip(x).map(|(w, x)| w * x).sum()
}

pub fn dot_in_lanes(w: &[f32], x: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 16];
    let (ws, xs) = (w.chunks_exact(16), x.chunks_exact(16));
    let tail = dot_in_order(ws.remainder(), xs.remainder());
    for (w, x) in ws.zip(xs) {
        for i in 0..16 {
            sums[i] += w[i] * x[i];
        }
    }
    sums.iter().sum::<f32>() + tail
}

#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
pub fn dot_wide(w: &[f32], x: &[f32]) -> f32 {
    let mut sums = [all(0.0); 4];
    let ((ws, w_tail), (xs, x_tail)) = (w.as_chunks::<32>(), x.as_chunks::<32>());
    for (w, x) in ws.iter().zip(xs) {
        for i in 0..4 {
            sums[i] = mul_add(load(&w[8 * i..]), load(&x[8 * i..]), sums[i]);
        }
    }
    let [a, b, c, d] = sums;
    sum(a) + sum(b) + sum(c) + sum(d) + dot_in_order(w_tail, x_tail)
}

pub fn dot_vectors(w: &[f32], x: &[f32]) -> f32 {
    // SAFETY: `dot_wide` is called only where there is what it is compiled for.
    if has_vectors() { unsafe { dot_wide(w, x) } } else { dot_in_lanes(w, x) }
}

#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
pub fn four_wide(rows: [&[f32]; 4], x: &[f32]) -> [f32; 4] {
    let mut sums = [all(0.0); 4];
    let whole = x.len() / 8 * 8;
    for at in (0..whole).step_by(8) {
        let inputs = load(&x[at..]);
        for r in 0..4 {
            sums[r] = mul_add(load(&rows[r][at..]), inputs, sums[r]);
        }
    }
    let mut out = [0.0; 4];
    for r in 0..4 {
        out[r] = sum(sums[r]) + dot_in_order(&rows[r][whole..], &x[whole..]);
    }
    out
}

pub fn four_dots(rows: [&[f32]; 4], x: &[f32]) -> [f32; 4] {
    // SAFETY: `four_wide` is called only where there is what it is compiled for.
    if has_vectors() { unsafe { four_wide(rows, x) } } else { rows.map(|row| dot_in_lanes(row, x)) }
}

#[inline(always)]
pub fn dot_int8(w: &[i8], x: &[i8]) -> i32 {
    let products = w.iter().zip(x).map(|(w, x)| i32::from(*w) * i32::from(*x));
    products.fold(0, i32::wrapping_add)
}

pub fn decode_nf4(packed: &[u8], absmax: &[f32], first: usize, out: &mut [f32]) {
    for (i, out) in (first..).zip(out) {
        let byte = packed[i / 2];
        let code = if i % 2 == 0 { byte >> 4 } else { byte & 15 };
        *out = FourBit::Nf4.codebook()[usize::from(code)] * absmax[i / 64];
    }
}

#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
pub fn dot_int8_wide(w: &[i8], x: &[i8]) -> i32 {
    dot_int8(w, x)
}
pub fn dot_int8_vectors(w: &[i8], x: &[i8]) -> i32 {
    // SAFETY: `dot_int8_wide` is called only where there is what it is compiled for.
    if has_vectors() { unsafe { dot_int8_wide(w, x) } } else { dot_int8(w, x) }
}
