// Each pair's angle from the one before, in double precision.
// right
fn rotate(head: &mut [f32], position: usize, base: f32) {
    if position == 0 {
        return;
    }
    let (first, second) = head.split_at_mut(head.len() / 2);
    let ratio = f64::from(base).powf(-1.0 / first.len() as f64);
    let mut angle = position as f64;
    for (a, b) in first.iter_mut().zip(second) {
        let (sin, cos) = angle.sin_cos();
        let (x, y) = (f64::from(*a), f64::from(*b));
        *a = (x * cos - y * sin) as f32;
        *b = (y * cos + x * sin) as f32;
        angle *= ratio;
    }
}
