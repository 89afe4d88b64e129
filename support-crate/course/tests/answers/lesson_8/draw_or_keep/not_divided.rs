// What is missing is not divided by its sum.
// wrong: divide by its sum
fn draw_or_keep(guess: u32, p: &[f64], q: &[f64], accept: f64, draw: f64) -> u32 {
    let g = guess as usize;
    if accept < p[g] / q[g] {
        return guess;
    }
    let parts: Vec<f64> = p.iter().zip(q).map(|(p, q)| (p - q).max(0.0)).collect();
    let total: f64 = 1.0;
    let mut so_far = 0.0;
    for (token, part) in parts.iter().enumerate() {
        so_far += part / total;
        if draw < so_far {
            return token as u32;
        }
    }
    (p.len() - 1) as u32
}
