// Walks the vocabulary by calling a helper; keeps at equality.
// right
fn draw_or_keep(guess: u32, p: &[f64], q: &[f64], accept: f64, draw: f64) -> u32 {
    fn walk(p: &[f64], q: &[f64], token: usize, left: f64) -> u32 {
        let part = f64::max(0.0, p[token] - q[token]);
        if left <= part && part > 0.0 || token + 1 == p.len() {
            token as u32
        } else {
            walk(p, q, token + 1, left - part)
        }
    }
    let (pg, qg) = (p[guess as usize], q[guess as usize]);
    if accept > pg / qg {
        let total: f64 = (0..p.len()).map(|t| (p[t] - q[t]).max(0.0)).sum();
        walk(p, q, 0, draw * total)
    } else {
        guess
    }
}
