// Difference first.
// wrong: the sum comes first
fn hadamard(x: &mut [f32]) {
    if x.is_empty() {
        return;
    }
    let block = 1 << x.len().trailing_zeros();
    for x in x.chunks_exact_mut(block) {
        let mut half = 1;
        while half < block {
            for pair in x.chunks_exact_mut(2 * half) {
                let (low, high) = pair.split_at_mut(half);
                for (low, high) in low.iter_mut().zip(high) {
                    (*low, *high) = (*low - *high, *low + *high);
                }
            }
            half *= 2;
        }
        x.iter_mut().for_each(|x| *x /= (block as f32).sqrt());
    }
}
