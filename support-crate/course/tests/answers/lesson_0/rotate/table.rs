// Positions go round in a table.
// wrong: position 150
fn rotate(head: &mut [f32], position: usize, base: f32) {
    let position = position % 128;
    let h = head.len() / 2;
    for i in 0..h {
        let (sin, cos) = (position as f32 * base.powf(-(i as f32) / h as f32)).sin_cos();
        let (a, b) = (head[i], head[i + h]);
        head[i] = a * cos - b * sin;
        head[i + h] = b * cos + a * sin;
    }
}
