// p without the guess.
// wrong: p without the guess is not what is missing
fn draw_or_keep(guess: u32, p: &[f64], q: &[f64], accept: f64, draw: f64) -> u32 {
    let at = guess as usize;
    if accept < p[at] / q[at] {
        return guess;
    }
    let others = |t: usize| if t == at { 0.0 } else { p[t] };
    let goal = draw * (0..p.len()).map(others).sum::<f64>();
    let mut sum = 0.0;
    for t in 0..p.len() {
        sum += others(t);
        if sum > goal {
            return t as u32;
        }
    }
    (p.len() - 1) as u32
}
