// The number of pairs in place of the width.
// wrong: not the number of its pairs
fn rotate(head: &mut [f32], position: usize, base: f32) {
    let d = head.len();
    let (first, second) = head.split_at_mut(d / 2);
    for (i, (a, b)) in first.iter_mut().zip(second).enumerate() {
        let angle = position as f32 * base.powf(-2.0 * i as f32 / (d / 2) as f32);
        let (sin, cos) = angle.sin_cos();
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}
