// With a copy whose halves are exchanged, as transformers does it.
// right
fn rotate(head: &mut [f32], position: usize, base: f32) {
    let (d, old) = (head.len(), head.to_vec());
    for i in 0..d {
        let angle = position as f32 / base.powf((2 * (i % (d / 2))) as f32 / d as f32);
        let other = if i < d / 2 { -old[i + d / 2] } else { old[i - d / 2] };
        head[i] = old[i] * angle.cos() + other * angle.sin();
    }
}
