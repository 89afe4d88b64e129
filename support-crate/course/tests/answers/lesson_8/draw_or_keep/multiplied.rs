// Without a division; fold.
// right
fn draw_or_keep(guess: u32, p: &[f64], q: &[f64], accept: f64, draw: f64) -> u32 {
    let i = guess as usize;
    if accept * q[i] < p[i] {
        guess
    } else {
        let gap = |t: usize| if p[t] > q[t] { p[t] - q[t] } else { 0.0 };
        let all = (0..p.len()).fold(0.0, |sum, t| sum + gap(t));
        let mut so_far = 0.0;
        let found = (0..p.len()).find(|&t| { so_far += gap(t); so_far > draw * all });
        found.unwrap_or(p.len() - 1) as u32
    }
}
