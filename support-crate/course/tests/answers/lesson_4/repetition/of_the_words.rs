// Divides by the number of words.
// wrong: n - 3 runs of four, not n
fn repetition(text: &str) -> f64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut seen = std::collections::HashSet::new();
    let repeated = words.windows(4).filter(|run| !seen.insert(run.to_vec())).count();
    repeated as f64 / words.len().max(1) as f64
}
