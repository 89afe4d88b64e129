// One step only.
// wrong: one step, of neighbours
fn hadamard(x: &mut [f32]) {
    for pair in x.chunks_exact_mut(2) {
        let root = 2.0_f32.sqrt();
        (pair[0], pair[1]) = ((pair[0] + pair[1]) / root, (pair[0] - pair[1]) / root);
    }
}
