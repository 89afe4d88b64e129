// A pass over the whole slice at a time, divided by the root of 2 in each, in a second buffer.
// right
fn hadamard(x: &mut [f32]) {
    let n = x.len();
    let mut next = vec![0.0f32; n];
    let mut h = 1;
    while n > 0 && n % (2 * h) == 0 {
        for i in 0..n {
            let (a, b) = if i & h == 0 { (x[i], x[i + h]) } else { (x[i - h], -x[i]) };
            next[i] = (a + b) * std::f32::consts::FRAC_1_SQRT_2;
        }
        x.copy_from_slice(&next);
        h *= 2;
    }
}
