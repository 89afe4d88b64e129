// By the matrix.
// right
fn hadamard(x: &mut [f32]) {
    let n = x.len();
    if n == 0 { return }
    let b = n & n.wrapping_neg();
    for block in x.chunks_mut(b) {
        let old = block.to_vec();
        for i in 0..b {
            let sum: f64 = (0..b).map(|j| if (i & j).count_ones() % 2 == 0 { old[j] as f64 } else { -old[j] as f64 }).sum();
            block[i] = (sum / (b as f64).sqrt()) as f32;
        }
    }
}
