// Halves, recursively.
// right
fn hadamard(x: &mut [f32]) {
    fn halves(x: &mut [f32]) {
        let n = x.len() / 2;
        if n == 0 {
            return;
        }
        let (a, b) = x.split_at_mut(n);
        for i in 0..n {
            let (u, v) = (a[i], b[i]);
            a[i] = (u + v) * std::f32::consts::FRAC_1_SQRT_2;
            b[i] = (u - v) * std::f32::consts::FRAC_1_SQRT_2;
        }
        halves(a);
        halves(b);
    }
    let mut block = 1;
    while !x.is_empty() && x.len() % (2 * block) == 0 {
        block *= 2;
    }
    x.chunks_mut(block).for_each(halves);
}
