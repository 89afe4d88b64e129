// Halves the vocabulary again and again.
// right
fn draw(probabilities: &[f64], uniform: f64) -> u32 {
    fn within(p: &[f64], u: f64) -> usize {
        if p.len() == 1 {
            return 0;
        }
        let (a, b) = p.split_at(p.len() / 2);
        let left: f64 = a.iter().sum();
        if u < left || b.iter().all(|p| *p == 0.0) {
            within(a, u)
        } else {
            a.len() + within(b, u - left)
        }
    }
    within(probabilities, uniform) as u32
}
