// The one of which most is missing.
// wrong: of which most is missing
fn draw_or_keep(guess: u32, p: &[f64], q: &[f64], accept: f64, draw: f64) -> u32 {
    let at = guess as usize;
    if accept < p[at] / q[at] {
        return guess;
    }
    (0..p.len()).max_by(|&a, &b| (p[a] - q[a]).total_cmp(&(p[b] - q[b]))).unwrap() as u32
}
