// Changes a copy.
// wrong: nothing was changed
fn hadamard(x: &mut [f32]) {
    let mut x = x.to_vec();
    let half = x.len() / 2;
    let (low, high) = x.split_at_mut(half);
    for (low, high) in low.iter_mut().zip(high) {
        (*low, *high) = (*low + *high, *low - *high);
    }
}
