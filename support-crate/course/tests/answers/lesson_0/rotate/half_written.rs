// Reads the first number of a pair after writing it.
// wrong: keep both before you write either
fn rotate(head: &mut [f32], position: usize, base: f32) {
    let (d, half) = (head.len(), head.len() / 2);
    for i in 0..half {
        let (sin, cos) = (position as f32 * base.powf(-2.0 * i as f32 / d as f32)).sin_cos();
        head[i] = head[i] * cos - head[i + half] * sin;
        head[i + half] = head[i + half] * cos + head[i] * sin;
    }
}
