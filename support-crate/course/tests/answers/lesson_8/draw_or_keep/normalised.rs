// Divides by the sum, and counts down.
// right
fn draw_or_keep(guess: u32, p: &[f64], q: &[f64], accept: f64, draw: f64) -> u32 {
    let g = guess as usize;
    let kept = if q[g] > p[g] { p[g] / q[g] } else { 1.0 };
    if accept < kept { return guess; }
    let total: f64 = p.iter().zip(q).map(|(p, q)| f64::max(p - q, 0.0)).sum();
    let mut left = draw;
    let mut last = guess;
    for i in 0..p.len() {
        let share = f64::max(p[i] - q[i], 0.0) / total;
        if share > 0.0 {
            last = i as u32;
            left -= share;
            if left < 0.0 { break; }
        }
    }
    last
}
