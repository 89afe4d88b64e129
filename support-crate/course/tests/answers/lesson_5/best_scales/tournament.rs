// A tournament: the better of the first and the best of the rest.
// right
fn best_scales(means: &[f32], powers: &[f32], error: &dyn Fn(&[f32]) -> f64) -> Vec<f32> {
    let (first, rest) = powers.split_first().expect("at least one power");
    let mine = awq_scales(means, *first);
    if rest.is_empty() {
        return mine;
    }
    let theirs = best_scales(means, rest, error);
    if error(&theirs) < error(&mine) { theirs } else { mine }
}
