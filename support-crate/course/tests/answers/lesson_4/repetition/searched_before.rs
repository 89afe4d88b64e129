// Looks for each run among those before it.
// right
fn repetition(text: &str) -> f64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let runs: Vec<&[&str]> = words.windows(4).collect();
    if runs.is_empty() {
        return 0.0;
    }
    let mut repeated = 0;
    for (i, run) in runs.iter().enumerate() {
        if runs[..i].contains(run) {
            repeated += 1;
        }
    }
    repeated as f64 / runs.len() as f64
}
