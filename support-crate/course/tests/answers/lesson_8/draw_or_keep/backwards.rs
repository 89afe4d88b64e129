// Draws from the last id to the first.
// wrong: in the order of the ids
fn draw_or_keep(guess: u32, p: &[f64], q: &[f64], accept: f64, draw: f64) -> u32 {
    let g = guess as usize;
    if accept < p[g] / q[g] {
        return guess;
    }
    let total: f64 = p.iter().zip(q).map(|(p, q)| (p - q).max(0.0)).sum();
    let mut left = draw * total;
    for token in (0..p.len()).rev() {
        let part = (p[token] - q[token]).max(0.0);
        if left < part {
            return token as u32;
        }
        left -= part;
    }
    0
}
