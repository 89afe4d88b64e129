// By index, with the angle in double precision.
// right
fn rotate(head: &mut [f32], position: usize, base: f32) {
    let half = head.len() / 2;
    for i in 0..half {
        let frequency = (base as f64).powf(-(i as f64) / half as f64);
        let angle = position as f64 * frequency;
        let (a, b) = (head[i] as f64, head[i + half] as f64);
        head[i] = (a * angle.cos() - b * angle.sin()) as f32;
        head[i + half] = (a * angle.sin() + b * angle.cos()) as f32;
    }
}
