// The same uniform number for both.
// wrong: `accept` says whether the guess is kept
fn draw_or_keep(guess: u32, p: &[f64], q: &[f64], accept: f64, draw: f64) -> u32 {
    let at = guess as usize;
    if accept < p[at] / q[at] {
        return guess;
    }
    let missing: Vec<f64> = p.iter().zip(q).map(|(p, q)| (p - q).max(0.0)).collect();
    let goal = accept * missing.iter().sum::<f64>();
    let mut sum = 0.0;
    for (token, part) in missing.iter().enumerate() {
        sum += part;
        if sum > goal {
            return token as u32;
        }
    }
    missing.iter().rposition(|part| *part > 0.0).unwrap_or(at) as u32
}
