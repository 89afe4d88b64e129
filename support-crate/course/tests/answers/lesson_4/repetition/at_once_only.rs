// Sees only what comes again at once.
// wrong: not only at once
fn repetition(text: &str) -> f64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let runs: Vec<&[&str]> = words.windows(4).collect();
    let repeated = runs.windows(2).filter(|pair| pair[0] == pair[1]).count();
    if runs.is_empty() { 0.0 } else { repeated as f64 / runs.len() as f64 }
}
