// Turns neighbours.
// wrong: that turns neighbours
fn rotate(head: &mut [f32], position: usize, base: f32) {
    let d = head.len();
    for (i, pair) in head.chunks_exact_mut(2).enumerate() {
        let (sin, cos) = (position as f32 * base.powf(-2.0 * i as f32 / d as f32)).sin_cos();
        let (a, b) = (pair[0], pair[1]);
        pair[0] = a * cos - b * sin;
        pair[1] = b * cos + a * sin;
    }
}
