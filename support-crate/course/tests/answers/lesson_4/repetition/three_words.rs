// Runs of three.
// wrong: runs of three words
fn repetition(text: &str) -> f64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut seen = std::collections::HashSet::new();
    let repeated = words.windows(3).filter(|run| !seen.insert(run.to_vec())).count();
    if words.len() < 4 { 0.0 } else { repeated as f64 / (words.len() - 2) as f64 }
}
